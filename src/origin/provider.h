/* provider.h - credentials that stay good. SPDX-License-Identifier: Apache-2.0
 *
 * One an origin. It finds its credentials when it is made, and from then on a thread of its own
 * looks at the same source again: before they expire, when a file changed, or when somebody was
 * refused. Whoever signs takes a snapshot; nobody waits for the source. */
#ifndef ORIGIN_PROVIDER_H
#define ORIGIN_PROVIDER_H

#include "origin/credentials.h"
#include "origin/origin.h"

struct provider;

/* Where nothing is configured and `ask` says that this is no mistake, the provider never has any.
 * `ask` is copied; its carriers must outlive the provider, origin is its name in the log. Fails
 * where nothing is configured, or wrongly; a source that only fails for now is asked again later.
 * *ret_region: as it was found, in keep. */
enum err provider_new(const struct credentials_ask *ask, const char *origin, struct arena *keep,
                      struct provider **ret, slice *ret_region, slice *ret_why) MUST_USE;
void provider_stop(struct provider *provider);    /* its carriers are about to go */
void provider_free(struct provider **provider);

/* Any thread. A snapshot, in keep, and which one it is. ERR_NO_KEYS: none is good now. */
enum err provider_take(struct provider *provider, struct arena *keep, struct sigv4_credentials *ret,
                       unsigned *ret_version) MUST_USE;
unsigned provider_version(const struct provider *provider);    /* 0: there were none yet */
/* Is snapshot `version` the last one, and beyond the end it was given for? */
bool provider_is_past(struct provider *provider, unsigned version);
/* Snapshot `version` is no good: a new look. False: it makes no sense (the source is fixed), or
 * one has just failed, or found the same; a guess, which clients may bring about, is worth a look
 * far more seldom. True: provider_looks() will rise, or provider_version() has. */
bool provider_renew(struct provider *provider, unsigned version, bool guess) MUST_USE;
unsigned provider_looks(const struct provider *provider);      /* that have ended */
uint64_t provider_renamed_ms(const struct provider *provider);    /* see origin_renamed_ms */
void provider_health(struct provider *provider, struct arena *keep, struct origin_keys *ret);

#endif
