/* gpu.c - loads the module for CUDA. SPDX-License-Identifier: Apache-2.0
 *
 * The module is one file at one fixed path, set when Penstock was built. No client can name another
 * file. The first gpu_load loads the module, and it stays until the process ends, because the CUDA
 * runtime inside it registers functions that run at exit. Threads: any; dlopen has its own lock. */
#include "local/gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"

const char *gpu_module_path(void)
{
    const char *path = testing_value(TESTING_GPU_MODULE);
    return path ? path : PKGLIBDIR "/penstock-cuda.so";
}

static const struct gpu_backend *ask(void *module, const char *path, struct gpu_why *why)
{
    gpu_module_get *get = NULL;
    *(void **)&get = dlsym(module, GPU_MODULE_SYMBOL);    /* POSIX shows this cast */
    const struct gpu_backend *backend = get ? get(GPU_INTERFACE) : NULL;
    if (!backend)
        snprintf(why->text, sizeof(why->text), "the module for CUDA, %s, is of another build than "
                 "this Penstock: install both from one build", path);
    return backend;
}

const struct gpu_backend *gpu_load(const char *path, struct gpu_why *why)
{
    if (access(path, R_OK) != 0) {
        snprintf(why->text, sizeof(why->text), "the module for CUDA, %s, can't be read (%s): build "
                 "Penstock with configure --with-cuda, and run make install", path,
                 strerror(errno));
        return NULL;
    }
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!module) {
        snprintf(why->text, sizeof(why->text), "the module for CUDA can't be loaded (%s): install "
                 "the module and Penstock from one build", dlerror());
        return NULL;
    }
    return ask(module, path, why);
}
