/* SPDX-License-Identifier: Apache-2.0 */
/* stall.c: a terminal that stands still, as after Ctrl-S. In: a program and its
 * arguments. It runs on a terminal of its own; once it has written a line, the
 * terminal takes no more, and after 13 s it gets SIGTERM. Out: its exit code; 124
 * where it hangs. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const struct timespec moment = {0, 50000000};
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    char byte;
    int status;

    if (argc < 2 || master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
        return 70;
    const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    const pid_t child = fork();
    if (child == 0) {
        for (int fd = 0; fd < 3; fd++)
            dup2(terminal, fd);
        execv(argv[1], argv + 1);
        _exit(70);
    }
    if (terminal < 0 || child < 0 || read(master, &byte, 1) != 1)
        return 70;
    tcflow(terminal, TCOOFF);
    sleep(13);
    kill(child, SIGTERM);
    for (int i = 0; i < 600; i++) {
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        nanosleep(&moment, NULL);
    }
    kill(child, SIGKILL);
    return 124;
}
