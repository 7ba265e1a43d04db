/*
 * How a symbol is made public. Everything else in the library is hidden.
 */
#ifndef TFCLUSTER_EXPORT_H
#define TFCLUSTER_EXPORT_H

#if defined(__GNUC__)
#define TFC_API __attribute__((visibility("default")))
#define TFC_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define TFC_API
#define TFC_PRINTF(text, first)
#endif

#endif
