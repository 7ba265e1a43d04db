/*
 * Helpers for files and directories. All descriptors are close-on-exec.
 */
#ifndef TFC_BASE_FILE_H
#define TFC_BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>
#include <tfcluster/error.h>

/* Writes all `len` bytes. Returns 0, or -1 and errno. */
int tfc__write_all(int fd, const void *data, size_t len);

/* Like tfc__write_all, with `call` in place of write(). */
typedef ssize_t tfc__write_call(int fd, const void *data, size_t len);
int tfc__write_all_by(tfc__write_call *call, int fd, const void *data, size_t len);

/*
 * Reads up to size - 1 bytes of a small file, such as those of /proc, and appends a NUL (read.c;
 * also part of guard and shim). Returns the number of bytes; -1, errno and an empty text when the
 * file cannot be read.
 */
ssize_t tfc__read_text(const char *path, char *ret_text, size_t size);

/* Sixteen random hex digits and a NUL. Returns 0, or -1 and errno. */
int tfc__random_hex(char ret_hex[17]);

/* Returns "a/b", which the caller frees; NULL when out of memory. */
char *tfc__path_join(const char *directory, const char *name);

/* Creates a directory in `parent`, mode 0700, named `prefix` followed by 16 random hex digits. The
 * caller frees *ret_path. `component` is the component named in the error. */
int tfc__make_private_dir(const char *parent, const char *prefix, const char *component,
			  tfc_error *error, char **ret_path);

/*
 * Removes a directory and its contents without following symbolic links (tree.c; also part of the
 * guard, therefore uses system calls only). An entry that cannot be removed stays. Returns 0, or -1
 * and the first errno.
 */
int tfc__remove_tree(const char *path);

/* Like tfc__remove_tree, but removes the entry `last` of the directory only when all other entries
 * are removed. */
int tfc__remove_tree_last(const char *path, const char *last);

/* Removes the contents of an open directory but not the directory itself, and closes fd. Returns 0,
 * or the first errno. */
int tfc__empty_dir(int fd);

#endif
