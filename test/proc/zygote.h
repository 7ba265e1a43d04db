#ifndef TEST_ZYGOTE_H
#define TEST_ZYGOTE_H

/* Serves until the guard closes the socket. Returns in each forked task, with its arguments. */
void zygote_serve(int *argc, char ***argv);

#endif
