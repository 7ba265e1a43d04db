/*
 * Freeing memory that the library allocated for the host.
 */
#ifndef TFCLUSTER_MEMORY_H
#define TFCLUSTER_MEMORY_H

#include <tfcluster/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Frees a list of strings made by the library. NULL is a no-op. Thread: any. Errors: none. */
TFC_API void tfc_strv_free(char **env);

/** Frees a string made by the library. NULL is a no-op. Thread: any. Errors: none. */
TFC_API void tfc_free(void *memory);

#ifdef __cplusplus
}
#endif
#endif
