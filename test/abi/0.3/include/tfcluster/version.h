/*
 * Version of libtfcluster: of the headers at compile time, of the library at run time.
 */
#ifndef TFCLUSTER_VERSION_H
#define TFCLUSTER_VERSION_H

#include <stdint.h>
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

/* Features. A later version adds features, and never removes or renumbers one. */
enum tfc_feature {
	TFC_FEATURE_UNIX = 1,          /* "unix:PATH" addresses */
	TFC_FEATURE_TCP = 2,           /* "tcp://HOST:PORT" addresses, encrypted with keys */
	TFC_FEATURE_MEMBERS_FILE = 4,  /* tfc_node_options.members_file */
	TFC_FEATURE_STATE_DIR = 8,     /* tfc_node_options.state_dir */
	TFC_FEATURE_BUNDLES = 16,      /* tfc_bundle_pack, and the job key "bundle" */
	TFC_FEATURE_UPSTREAMS = 32,    /* tfc_upstream_ops, and the placement policy "upstream" */
	TFC_FEATURE_JSON_OPTIONS = 64, /* tfc_node_open_json and tfc_gateway_open_json */
};

/**
 * The features of the library that is loaded, as a mask of enum tfc_feature. Bindings, which do not
 * see TFC_VERSION_NUMBER, check these. Thread: any. Errors: none.
 */
TFC_API uint64_t tfc_features(void);

/** "unix", "tcp", ...: the name of one feature; "?" for an unknown one. Static string. Thread: any.
 * Errors: none. */
TFC_API const char *tfc_feature_name(uint64_t feature);

#ifdef __cplusplus
}
#endif
#endif
