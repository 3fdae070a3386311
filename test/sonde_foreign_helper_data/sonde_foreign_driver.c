/* sonde_foreign_driver.c: a driver, as users may have them, whose port is in one long call of its own: for tests.
 * Knows: drivers and their timers. Does not know: sonde. */
#include <erl_driver.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct state {
    ErlDrvPort port;
    int ms; /* how long the next call takes */
    bool again;
};

static ErlDrvData start(ErlDrvPort port, char *command)
{
    (void)command;
    struct state *s = driver_alloc(sizeof *s);
    if (s)
        *s = (struct state){port, 0, false};
    return s ? (ErlDrvData)s : ERL_DRV_ERROR_GENERAL;
}

static void stop(ErlDrvData data)
{
    driver_free(data);
}

/* "Ms" or "Ms again": the call comes later, when a scheduler has taken the port. */
static void output(ErlDrvData data, char *bytes, ErlDrvSizeT n)
{
    struct state *s = (struct state *)data;
    char text[32] = "";
    if (n < sizeof text)
        memcpy(text, bytes, n);
    s->ms = atoi(text);
    s->again = strstr(text, "again") != NULL;
    driver_set_timer(s->port, 0);
}

static void timeout(ErlDrvData data)
{
    struct state *s = (struct state *)data;
    struct timespec left = {s->ms / 1000, s->ms % 1000 * 1000000L};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
    if (s->again)
        driver_set_timer(s->port, 0);
}

static ErlDrvEntry entry = {.driver_name = "sonde_foreign_driver",
                            .start = start,
                            .stop = stop,
                            .output = output,
                            .timeout = timeout,
                            .extended_marker = ERL_DRV_EXTENDED_MARKER,
                            .major_version = ERL_DRV_EXTENDED_MAJOR_VERSION,
                            .minor_version = ERL_DRV_EXTENDED_MINOR_VERSION,
                            .driver_flags = ERL_DRV_FLAG_USE_PORT_LOCKING};

DRIVER_INIT(sonde_foreign_driver)
{
    return &entry;
}
