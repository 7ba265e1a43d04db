/*
 * libtfcluster: runs TensorFlow clusters from inside a host program. This header includes all
 * others; each can also be included alone.
 */
#ifndef TFCLUSTER_TFCLUSTER_H
#define TFCLUSTER_TFCLUSTER_H

#include <tfcluster/allocation.h>
#include <tfcluster/backend.h>
#include <tfcluster/bundle.h>
#include <tfcluster/ctx.h>
#include <tfcluster/error.h>
#include <tfcluster/export.h>
#include <tfcluster/feed.h>
#include <tfcluster/gateway.h>
#include <tfcluster/hooks.h>
#include <tfcluster/job.h>
#include <tfcluster/key.h>
#include <tfcluster/log.h>
#include <tfcluster/member.h>
#include <tfcluster/memory.h>
#include <tfcluster/node.h>
#include <tfcluster/port.h>
#include <tfcluster/process.h>
#include <tfcluster/results.h>
#include <tfcluster/spec.h>
#include <tfcluster/upstream.h>
#include <tfcluster/version.h>

#endif
