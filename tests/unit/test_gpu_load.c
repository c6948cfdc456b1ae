/* test_gpu_load.c - the loader of the module for CUDA. SPDX-License-Identifier: Apache-2.0
 *
 * Without any GPU, or with the modules that this build made, in the folder where tests run. */
#include "unit.h"

#include <dlfcn.h>
#include <unistd.h>

#include "local/gpu.h"

#define REAL "./penstock-cuda.so"
#define FAKE "./tests/local/penstock-cuda-fake.so"

static bool says(const struct gpu_why *why, const char *part)
{
    return strstr(why->text, part) != NULL;
}

TEST(a_module_that_is_not_there_is_a_sentence)
{
    struct gpu_why why = { "" };
    ok(gpu_load("/nowhere/penstock-cuda.so", &why) == NULL);
    ok(says(&why, "/nowhere/penstock-cuda.so") && says(&why, "--with-cuda"));
}

TEST(a_file_that_is_no_module_is_a_sentence)
{
    struct gpu_why why = { "" };
    ok(gpu_load("/proc/self/status", &why) == NULL);
    ok(says(&why, "can't be loaded"));
}

TEST(the_installed_module_lies_where_libraries_of_ours_lie)
{
    ok(gpu_module_path()[0] == '/');
    ok(strstr(gpu_module_path(), "/penstock/penstock-cuda.so"));
}

TEST(a_module_of_another_build_is_refused)
{
    if (access(FAKE, R_OK) != 0)
        skip();
    struct gpu_why why;
    const struct gpu_backend *backend = gpu_load(FAKE, &why);
    ok(backend != NULL);
    gpu_module_get *get = NULL;
    *(void **)&get = dlsym(dlopen(FAKE, RTLD_NOW), GPU_MODULE_SYMBOL);
    ok(get && get(GPU_INTERFACE) == backend);
    ok(get(GPU_INTERFACE + 1) == NULL);
}

/* On a machine without a driver this is the path that every start with the feature on takes. */
TEST(the_real_module_loads_and_says_what_there_is)
{
    if (access(REAL, R_OK) != 0)
        skip();
    struct gpu_why why;
    struct gpu_probe probe;
    struct gpu *gpu = NULL;
    const struct gpu_backend *backend = gpu_load(REAL, &why);
    ok(backend != NULL);
    for (int i = 0; i < 3; i++) {
        backend->probe(&probe);
        ok(probe.count > 0 || probe.why.text[0]);
        ok(probe.runtime >= 12080 || probe.driver == 0);
    }
    ok(backend->open("GPU-00000000-0000-0000-0000-000000000000", 1, true, &gpu, &why) ==
       ERR_NOT_FOUND);
    print_message("driver %d, %zu devices: %s\n", probe.driver, probe.count,
                  probe.count ? probe.devices[0].name : probe.why.text);
}

RUN(cmocka_unit_test(a_module_that_is_not_there_is_a_sentence),
    cmocka_unit_test(a_file_that_is_no_module_is_a_sentence),
    cmocka_unit_test(the_installed_module_lies_where_libraries_of_ours_lie),
    cmocka_unit_test(a_module_of_another_build_is_refused),
    cmocka_unit_test(the_real_module_loads_and_says_what_there_is))
