/* test_corpus.c: runs each input of the fuzzer's corpus once, without the fuzzer.
 * Knows: their directory. Does not know: what is in them, or the expected answers (see
 * fuzz_walk.c). */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The leak checker looks into /proc, which a chroot may not have (nor can options be given there,
 * which are read from /proc too). What the walkers lose, fuzz_walk.c counts. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

enum { INPUT_MAX = 4096, FEWEST = 50 };

static size_t read_file(const char *name, uint8_t *input)
{
    char path[512];
    int length = snprintf(path, sizeof path, "fuzz/corpus/%s", name);
    FILE *f = length > 0 && (size_t)length < sizeof path ? fopen(path, "rb") : NULL;
    if (!f)
        return 0;
    size_t n = fread(input, 1, INPUT_MAX, f);
    (void)fclose(f);
    return n;
}

static bool run_file(const char *name)
{
    static uint8_t input[INPUT_MAX];
    size_t n = read_file(name, input);
    /* of its own size: to read behind the input is to read behind a block */
    uint8_t *copy = n > 0 ? malloc(n) : NULL;
    if (!copy)
        return false;
    memcpy(copy, input, n);
    (void)printf("%s\n", name); /* the last one of the log is the one that failed */
    (void)LLVMFuzzerTestOneInput(copy, n);
    free(copy);
    return true;
}

int main(void)
{
    unsigned n = 0;
    bool ok = true;
    const struct dirent *e;
    DIR *dir = opendir("fuzz/corpus");
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    while (dir && ok && (e = readdir(dir)) != NULL) { // NOLINT(concurrency-mt-unsafe)
        if (e->d_name[0] != '.') {
            ok = run_file(e->d_name);
            n++;
        }
    }
    if (dir)
        (void)closedir(dir);
    (void)printf("%u inputs\n", n);
    return ok && n >= FEWEST ? 0 : 1;
}
