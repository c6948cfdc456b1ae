/* provider.h - keeps the credentials of an origin valid. SPDX-License-Identifier: Apache-2.0
 *
 * Each S3 origin has one provider. The provider finds credentials when it is made. If they may
 * change, its own thread looks at the same source again: before the credentials expire, every few
 * seconds if they are in files, and when the origin refused a request. Each search of the source is
 * a look. A signer takes a snapshot of the credentials, and never waits for the source. */
#ifndef ORIGIN_PROVIDER_H
#define ORIGIN_PROVIDER_H

#include "origin/credentials.h"
#include "origin/origin.h"

struct provider;

/* `ask` is copied. `origin` is the origin's name for the log. Fails if no source is configured, or
 * if a source is configured wrongly; a source that only fails for now is asked again later. If no
 * source is configured and ask->optional is set, the provider is made but never has credentials.
 * *ret_region is the region that was found, in keep. */
enum err provider_new(const struct credentials_ask *ask, const char *origin, struct arena *keep,
                      struct provider **ret, slice *ret_region, slice *ret_why) MUST_USE;
void provider_free(struct provider **provider);

/* Returns a snapshot, in keep, and its version; or ERR_NO_KEYS if there are no valid credentials.
 * Any thread may call this function. */
enum err provider_take(struct provider *provider, struct arena *keep, struct sigv4_credentials *ret,
                       unsigned *ret_version) MUST_USE;
unsigned provider_version(const struct provider *provider);    /* 0: it never had credentials */
/* Returns true if `version` is that of the newest snapshot, and these credentials have expired. */
bool provider_is_past(struct provider *provider, unsigned version);
/* Reports that the origin refused snapshot `version`, and starts a new look at the source. Set
 * `guess` if the refusal may have another cause than old credentials, and if clients can provoke
 * it; looks after a guess are far less frequent. Returns true if provider_looks() will rise, or
 * provider_version() has risen. Returns false if no look starts, because the source is fixed, or
 * the last look just failed or found nothing new. */
bool provider_renew(struct provider *provider, unsigned version, bool guess) MUST_USE;
unsigned provider_looks(const struct provider *provider);      /* number of looks that ended */
uint64_t provider_owner_changed_ms(const struct provider *provider);    /* see origin.h */
slice provider_owner(const struct provider *provider);                  /* see origin.h */
void provider_health(struct provider *provider, struct arena *keep, struct origin_keys *ret);

#endif
