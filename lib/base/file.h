/*
 * Small helpers around files and directories. All descriptors are close-on-exec.
 */
#ifndef TFC_BASE_FILE_H
#define TFC_BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>
#include <tfcluster/error.h>

/* Writes all of it; -1 and errno on failure. */
int tfc__write_all(int fd, const void *data, size_t len);

/* The same by a call that takes the place of write(). */
typedef ssize_t tfc__write_call(int fd, const void *data, size_t len);
int tfc__write_all_by(tfc__write_call *call, int fd, const void *data, size_t len);

/*
 * Reads a small file, such as those of /proc: up to size - 1 bytes, and a NUL (read.c; also part of
 * guard and shim). Returns how many; -1, errno and an empty text when it cannot be read.
 */
ssize_t tfc__read_text(const char *path, char *ret_text, size_t size);

/* Sixteen random hex digits and a NUL. -1 and errno on failure. */
int tfc__random_hex(char ret_hex[17]);

/* "a/b", freshly allocated; NULL when out of memory. */
char *tfc__path_join(const char *directory, const char *name);

/* Makes a fresh directory, mode 0700, PREFIX followed by random digits, in `parent`. */
int tfc__make_private_dir(const char *parent, const char *prefix, const char *component,
			  tfc_error *error, char **ret_path);

/*
 * Removes a directory and all in it without following a link anywhere (tree.c; also part of the
 * guard, so it needs nothing but system calls). What cannot be removed stays; -1 and the first
 * errno.
 */
int tfc__remove_tree(const char *path);

/* The same; the entry `last` of the directory goes only once nothing else is left in it. */
int tfc__remove_tree_last(const char *path, const char *last);

/* The same for all in an open directory, which stays; closes fd. 0, or the first errno. */
int tfc__empty_dir(int fd);

#endif
