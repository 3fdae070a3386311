/* test_corpus.c: runs each input of a fuzzer's corpus once, without the fuzzer.
 * Does not know: what is in them, or the expected answers (see fuzz_walk.c and fuzz_core.c). */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The leak checker needs /proc, which a chroot may lack. ASAN_OPTIONS is read from there too, so
 * the option is set here. fuzz_walk.c counts what the walkers leak. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

/* Of the fuzzer that this is linked with, and where its inputs are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const char fuzz_corpus[];

enum { INPUT_MAX = 4096, FEWEST = 30 };

static size_t read_file(const char *name, uint8_t *input)
{
    char path[512];
    int length = snprintf(path, sizeof path, "%s/%s", fuzz_corpus, name);
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
    /* in a block of exactly its size: ASan then sees a read beyond the input */
    uint8_t *copy = n > 0 ? malloc(n) : NULL;
    if (!copy)
        return false;
    memcpy(copy, input, n);
    (void)printf("%s\n", name); /* the last name in the log is the input that failed */
    (void)LLVMFuzzerTestOneInput(copy, n);
    free(copy);
    return true;
}

int main(void)
{
    unsigned n = 0;
    bool ok = true;
    const struct dirent *e;
    DIR *dir = opendir(fuzz_corpus);
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
