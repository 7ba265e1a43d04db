/*
 * What is in a folder, counted.
 */
#ifndef TEST_FOLDER_H
#define TEST_FOLDER_H

/* How many entries have a name that begins so ("": all), but for "." and "..". */
int folder_count(const char *path, const char *begin);

/* How many descriptors are open. */
int folder_count_fds(void);

#endif
