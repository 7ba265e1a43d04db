/*
 * Version of libtfcluster: of the headers at compile time, of the library at run time.
 */
#ifndef TFCLUSTER_VERSION_H
#define TFCLUSTER_VERSION_H

#include <tfcluster/export.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TFC_VERSION_MAJOR 0
#define TFC_VERSION_MINOR 3
#define TFC_VERSION_PATCH 0

/* The version as one number that grows: 0xMMmmpp. */
#define TFC_VERSION_NUMBER \
	((TFC_VERSION_MAJOR << 16) | (TFC_VERSION_MINOR << 8) | TFC_VERSION_PATCH)

/**
 * The version of the library that is loaded, as TFC_VERSION_NUMBER.
 * Thread: any, also beside other calls. Errors: none.
 */
TFC_API unsigned tfc_version(void);

#ifdef __cplusplus
}
#endif
#endif
