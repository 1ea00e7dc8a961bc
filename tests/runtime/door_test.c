/* SPDX-License-Identifier: Apache-2.0 */
/* door_test.c: how processes of a job know each other: digests against published vectors,
 * secrets that are taken and refused, greetings of those who know the secret, who do not,
 * and who repeat what they heard; a door with a crowd at it. */
#define _GNU_SOURCE
#include "../../runtime/job/rt_door.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- digests --------------------------------------------------------------------- */

static void expect_hex(const unsigned char *digest, const char *hex, size_t bytes)
{
    char text[2 * RT_DIGEST_BYTES + 1];

    rt_hex(digest, bytes, text);
    assert_string_equal(text, hex);
}

static void sha256(const void *data, size_t bytes, unsigned char *digest)
{
    RtSha256 h;

    rt_sha256_begin(&h);
    rt_sha256_more(&h, data, bytes);
    rt_sha256_end(&h, digest);
}

/* NIST's examples of FIPS 180-4. */
static void sha256_vectors(void **state)
{
    static const char *const texts[][2] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnop"
         "qkl"
         "mnopqrlmnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"}};
    unsigned char digest[RT_DIGEST_BYTES];
    char *million = malloc(1000000);

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sha256(texts[i][0], strlen(texts[i][0]), digest);
        expect_hex(digest, texts[i][1], sizeof digest);
    }
    memset(million, 'a', 1000000);
    sha256(million, 1000000, digest);
    expect_hex(digest, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
               sizeof digest);
    free(million);
}

/* In pieces, at every place of a block. */
static void sha256_pieces(void **state)
{
    unsigned char data[200], whole[RT_DIGEST_BYTES], pieces[RT_DIGEST_BYTES];
    RtSha256 h;

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7 + 3);
    for (size_t bytes = 0; bytes <= sizeof data; bytes++) {
        sha256(data, bytes, whole);
        for (size_t cut = 0; cut <= bytes; cut += 1 + bytes / 9) {
            rt_sha256_begin(&h);
            rt_sha256_more(&h, data, cut);
            rt_sha256_more(&h, data + cut, bytes - cut);
            rt_sha256_end(&h, pieces);
            assert_memory_equal(whole, pieces, sizeof whole);
        }
    }
}

/* RFC 4231, 4.2 to 4.8; of 4.6 the first 128 bits. */
static void hmac_vectors(void **state)
{
    unsigned char byte[131], key25[25], fifty[50], digest[RT_DIGEST_BYTES];
    const char *large = "Test Using Larger Than Block-Size Key - Hash Key First",
               *both = "This is a test using a larger than block-size key and a larger "
                       "than block-size data. The key needs to be hashed before being "
                       "used by the HMAC algorithm.";
    const struct {
        int key_byte; /* -1: the text; -2: 1 to 25 */
        const char *key;
        size_t key_bytes;
        const void *data;
        size_t bytes, shown;
        const char *hex;
    } tests[] = {{0x0b, NULL, 20, "Hi There", 8, 32,
                  "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
                 {-1, "Jefe", 4, "what do ya want for nothing?", 28, 32,
                  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
                 {0xaa, NULL, 20, fifty, 50, 32,
                  "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
                 {-2, NULL, 25, fifty, 50, 32,
                  "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
                 {0x0c, NULL, 20, "Test With Truncation", 20, 16,
                  "a3b6167473100ee06e0c796c2955552b"},
                 {0xaa, NULL, 131, large, strlen(large), 32,
                  "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
                 {0xaa, NULL, 131, both, strlen(both), 32,
                  "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"}};

    (void)state;
    for (int i = 0; i < 25; i++)
        key25[i] = (unsigned char)(i + 1);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        const void *key = tests[i].key_byte == -1   ? (const void *)tests[i].key
                          : tests[i].key_byte == -2 ? key25
                                                    : byte;
        RtHmac m;

        memset(byte, tests[i].key_byte, sizeof byte);
        memset(fifty, i == 2 ? 0xdd : 0xcd, sizeof fifty);
        rt_hmac_begin(&m, key, tests[i].key_bytes);
        rt_hmac_more(&m, tests[i].data, tests[i].bytes);
        rt_hmac_end(&m, digest);
        expect_hex(digest, tests[i].hex, tests[i].shown);
    }
}

static void bytes_compare(void **state)
{
    unsigned char a[40] = {0}, b[40] = {0};

    (void)state;
    assert_true(rt_same_bytes(a, b, sizeof a));
    for (size_t i = 0; i < 8 * sizeof a; i++) {
        b[i / 8] ^= (unsigned char)(1 << i % 8);
        assert_false(rt_same_bytes(a, b, sizeof a));
        b[i / 8] = 0;
    }
    assert_true(rt_random_bytes(a, 32) && rt_random_bytes(b, 32));
    assert_false(rt_same_bytes(a, b, 32));
}

/* ---- secrets --------------------------------------------------------------------- */

static const char letters[] = "sixteen letters!";
static char folder[] = "/tmp/door-test-XXXXXX", path[64];

static void write_secret(const char *text, mode_t mode)
{
    FILE *f;

    unlink(path);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
}

/* NULL: it is taken. */
static const char *refused(const char *file, RtSecret *s)
{
    static char error[RT_ERROR_BYTES];
    const RtFlags f = {.secret = file};

    return rt_secret_find(&f, s, error) ? NULL : error;
}

static void secrets(void **state)
{
    RtSecret s, again;
    char *long_text = calloc(1, 5000);

    (void)state;
    unsetenv(RT_SECRET_VARIABLE);
    assert_null(refused(NULL, &s));
    assert_false(s.given);
    setenv(RT_SECRET_VARIABLE, letters, 1);
    assert_null(refused(NULL, &s));
    assert_true(s.given);
    write_secret("sixteen letters!\r\n", 0600);
    assert_null(refused(path, &again));
    assert_memory_equal(s.key, again.key, sizeof s.key);
    write_secret("another secret, of letters", 0400);
    assert_null(refused(path, &again)); /* a file that is named comes first */
    assert_memory_not_equal(s.key, again.key, sizeof s.key);

    setenv(RT_SECRET_VARIABLE, "", 1);
    assert_non_null(strstr(refused(NULL, &s), "FSDPGEN_SECRET has 0 bytes"));
    setenv(RT_SECRET_VARIABLE, "fifteen letters", 1);
    assert_non_null(strstr(refused(NULL, &s), "has 15 bytes, and a secret has 16 to"));
    unsetenv(RT_SECRET_VARIABLE);
    for (int i = 0; i < 4999; i++)
        long_text[i] = "xy"[i % 2];
    write_secret(long_text, 0600);
    assert_non_null(strstr(refused(path, &s), "bytes, and a secret has 16 to 4096"));
    memset(long_text, 'z', 32);
    long_text[32] = '\0';
    write_secret(long_text, 0600);
    assert_non_null(
        strstr(refused(path, &s), "is one byte, 32 times, which is not a secret"));
    free(long_text);
}

static void secret_files(void **state)
{
    static const mode_t open_modes[] = {0640, 0604, 0620, 0602, 0601, 0610, 0644, 0666};
    RtSecret s;
    char link[80];

    (void)state;
    for (size_t i = 0; i < sizeof open_modes / sizeof *open_modes; i++) {
        write_secret(letters, open_modes[i]);
        assert_non_null(strstr(refused(path, &s), "chmod 600 it"));
        assert_false(s.given);
    }
    assert_non_null(strstr(refused(folder, &s), "not a regular file"));
    assert_non_null(strstr(refused("/dev/zero", &s), "not a regular file"));
    assert_non_null(strstr(refused("/nowhere/at/all", &s), "No such file"));
    write_secret(letters, 0600);
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink(path, link), 0);
    assert_null(refused(link, &s)); /* what counts is the file itself */
    unlink(link);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_non_null(
        strstr(refused(path, &s), "not a regular file")); /* and does not wait */
    if (geteuid() == 0) { /* only root can give a file away */
        write_secret(letters, 0600);
        assert_int_equal(chown(path, 65534, 65534), 0);
        assert_non_null(
            strstr(refused(path, &s), "it belongs to user 65534, and this is"));
    }
}

/* ---- greetings ------------------------------------------------------------------- */

static RtSecret secret_of(char c)
{
    RtSecret s = {.given = true};

    memset(s.key, c, sizeof s.key);
    return s;
}

/* What one end has to say reaches the other. */
static RtGreet carry(RtGreeting *from, RtGreeting *to)
{
    unsigned char bytes[RT_GREETING_BYTES];
    const size_t n = from->out_bytes;

    assert_true(n > 0 && n == rt_greet_wants(to));
    memcpy(bytes, from->out, n);
    return rt_greet_hear(to, bytes, n);
}

static void begin(RtGreeting *visitor, RtGreeting *host, const RtSecret *s)
{
    assert_true(rt_greet_begin(visitor, s, "machines", false));
    assert_true(rt_greet_begin(host, s, "machines", true));
    assert_int_equal(host->out_bytes, 0); /* it does not speak first */
}

static void greet(RtGreeting *visitor, RtGreeting *host, const RtSecret *s)
{
    begin(visitor, host, s);
    assert_int_equal(carry(visitor, host), RT_GREET_MORE);
    assert_int_equal(carry(host, visitor), RT_GREET_MORE);
    assert_int_equal(carry(visitor, host), RT_GREET_DONE);
    assert_int_equal(carry(host, visitor), RT_GREET_DONE);
    assert_int_equal(visitor->out_bytes, 0);
}

static void greetings(void **state)
{
    const RtSecret right = secret_of(1), wrong = secret_of(2);
    RtGreeting v, h, other;

    (void)state;
    greet(&v, &h, &right);
    assert_memory_equal(v.ours.key, h.theirs.key, RT_DIGEST_BYTES);
    assert_memory_equal(v.theirs.key, h.ours.key, RT_DIGEST_BYTES);
    assert_memory_not_equal(v.ours.key, v.theirs.key, RT_DIGEST_BYTES);
    other = v;
    greet(&v, &h, &right); /* each connection has its own keys */
    assert_memory_not_equal(other.ours.key, v.ours.key, RT_DIGEST_BYTES);

    /* a visitor without the secret hears a nonce and no more */
    begin(&v, &h, &right);
    v.secret = &wrong;
    carry(&v, &h);
    carry(&h, &v);
    assert_int_equal(carry(&v, &h), RT_GREET_NO_SECRET);
    assert_int_equal(h.out_bytes, 0);

    /* a host without it: the visitor notices */
    begin(&v, &h, &right);
    h.secret = &wrong;
    carry(&v, &h);
    carry(&h, &v);
    memcpy(h.out, v.out, RT_DIGEST_BYTES); /* it sends the visitor's own proof back */
    h.out_bytes = RT_DIGEST_BYTES;
    assert_int_equal(carry(&h, &v), RT_GREET_NO_SECRET);

    /* a proof for one door fails at another */
    begin(&v, &h, &right);
    v.door = "ranks";
    carry(&v, &h);
    carry(&h, &v);
    assert_int_equal(carry(&v, &h), RT_GREET_NO_SECRET);
}

/* Bytes that come back, or come again. */
static void repeated(void **state)
{
    const RtSecret s = secret_of(1);
    RtGreeting v, h, second;
    unsigned char nonce[RT_GREETING_BYTES], proof[RT_DIGEST_BYTES];

    (void)state;
    /* a recorded visitor */
    begin(&v, &h, &s);
    memcpy(nonce, v.out, sizeof nonce);
    carry(&v, &h);
    carry(&h, &v);
    memcpy(proof, v.out, sizeof proof);
    assert_int_equal(carry(&v, &h), RT_GREET_DONE);
    assert_true(rt_greet_begin(&second, &s, "machines", true));
    assert_int_equal(rt_greet_hear(&second, nonce, sizeof nonce), RT_GREET_MORE);
    assert_int_equal(rt_greet_hear(&second, proof, sizeof proof), RT_GREET_NO_SECRET);

    /* the host's nonce as the visitor's, and as its proof */
    assert_true(rt_greet_begin(&h, &s, "machines", true));
    assert_true(rt_greet_begin(&v, &s, "machines", false));
    assert_int_equal(rt_greet_hear(&h, v.out, RT_GREETING_BYTES), RT_GREET_MORE);
    memcpy(nonce, h.out, sizeof nonce);
    assert_true(rt_greet_begin(&second, &s, "machines", true));
    assert_int_equal(rt_greet_hear(&second, nonce, sizeof nonce), RT_GREET_MORE);
    assert_int_equal(rt_greet_hear(&second, nonce + 8, 32), RT_GREET_NO_SECRET);

    /* both nonces the same: the roles still differ */
    assert_true(rt_greet_begin(&v, &s, "machines", false));
    memcpy(nonce, v.out, sizeof nonce);
    assert_int_equal(rt_greet_hear(&v, nonce, sizeof nonce), RT_GREET_MORE);
    memcpy(proof, v.out, sizeof proof);
    assert_int_equal(rt_greet_hear(&v, proof, sizeof proof), RT_GREET_NO_SECRET);
}

static void no_words(void **state)
{
    const RtSecret s = secret_of(1);
    RtGreeting h;

    (void)state;
    for (int at = 0; at < 8; at++) { /* known as soon as a byte differs */
        unsigned char bytes[] = {'f', 's', 'd', 'p', 'm', 'e', 't', '2'};

        bytes[at] ^= 1;
        assert_true(rt_greet_begin(&h, &s, "machines", true));
        for (int i = 0; i < at; i++)
            assert_int_equal(rt_greet_hear(&h, bytes + i, 1), RT_GREET_MORE);
        assert_int_equal(rt_greet_hear(&h, bytes + at, 1), RT_GREET_NO_WORDS);
    }
}

static void seals(void **state)
{
    const RtSecret s = secret_of(1);
    RtGreeting v, h;
    enum { BYTES = 100 };
    unsigned char first[RT_SEAL_HEAD + BYTES + RT_DIGEST_BYTES], second[sizeof first];
    RtSeal before;

    (void)state;
    greet(&v, &h, &s);
    memset(first, 3, sizeof first);
    memset(second, 3, sizeof second);
    rt_seal(&v.ours, first, BYTES);
    rt_seal(&v.ours, second, BYTES);
    assert_memory_not_equal(first + RT_SEAL_HEAD + BYTES, second + RT_SEAL_HEAD + BYTES,
                            RT_DIGEST_BYTES);
    before = h.theirs;
    for (size_t bit = 0; bit < 8 * sizeof first; bit++) {
        h.theirs = before;
        first[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_false(rt_unseal(&h.theirs, first, BYTES));
        first[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    h.theirs = before;
    assert_false(rt_unseal(&h.theirs, second, BYTES)); /* the first is missing */
    h.theirs = before;
    assert_false(rt_unseal(&v.theirs, first, BYTES)); /* sent back */
    assert_true(rt_unseal(&h.theirs, first, BYTES));
    assert_false(rt_unseal(&h.theirs, first, BYTES)); /* again */
    h.theirs.count = 1;
    assert_true(rt_unseal(&h.theirs, second, BYTES));
}

/* ---- a door ---------------------------------------------------------------------- */

enum { CROWD = 600, HELLO = 300 };
static char name[RT_NAME_LETTERS];
static const RtSecret *visitors_secret;

/* Comes again as rt_join.c does; what it says is its number. */
static void *visit(void *number)
{
    for (int tries = 0; tries < 400; tries++) {
        unsigned char hello[HELLO];
        RtGreeting g;
        RtNameOwner owner;
        const int s = rt_name_connect(name, false, &owner);
        const int64_t until = rt_clock_ns() + INT64_C(3000000000);

        memset(hello, *(int *)number, sizeof hello);
        if (s >= 0 && rt_greet_begin(&g, visitors_secret, "ranks", false) &&
            rt_greet_visit(&g, s, until) == RT_GREET_DONE &&
            rt_send_sealed(s, &g.ours, hello, sizeof hello, until) &&
            rt_receive_sealed(s, &g.theirs, hello, 1, until)) {
            close(s);
            return hello[0] == 'w' ? number : NULL;
        }
        if (s >= 0)
            close(s);
        rt_nap(5);
    }
    return NULL;
}

/* Keeps so many connections that say nothing, until crowd_ends. */
static _Atomic int crowd_ends;
static void *crowd(void *unused)
{
    static int s[CROWD];

    (void)unused;
    for (int i = 0; i < CROWD; i++)
        s[i] = -1;
    while (!crowd_ends) {
        for (int i = 0; i < CROWD; i++) {
            RtNameOwner owner;

            if (s[i] >= 0 && rt_has_left(s[i])) {
                close(s[i]);
                s[i] = -1;
            }
            if (s[i] < 0)
                s[i] = rt_name_connect(name, false, &owner);
        }
        rt_nap(1);
    }
    for (int i = 0; i < CROWD; i++)
        if (s[i] >= 0)
            close(s[i]);
    return NULL;
}

static void crowded(void **state)
{
    static RtDoor d;
    static RtVisitor guest;
    const RtSecret right = secret_of(1);
    const struct rlimit most = {4096, 4096};
    pthread_t them, one[3];
    int number[3] = {1, 2, 3}, came = 0, seen = 0;
    void *how;

    (void)state;
    setrlimit(RLIMIT_NOFILE, &most);
    snprintf(name, sizeof name, "door-test-%d", (int)getpid());
    visitors_secret = &right;
    rt_door_begin(&d, &right, "ranks", HELLO);
    d.admits = rt_same_user;
    d.listener[0] = rt_name_listen(name, rt_clock_ns() + INT64_C(1000000000));
    d.listeners = 1;
    assert_true(d.listener[0] >= 0);
    pthread_create(&them, NULL, crowd, NULL);
    while (d.turned_away < CROWD) /* more than there is room for */
        rt_door_wait(&d, 100, &guest);
    for (int i = 0; i < 3; i++)
        pthread_create(&one[i], NULL, visit, &number[i]);
    while (came < 3) {
        unsigned char word = 'w';

        if (!rt_door_wait(&d, 100, &guest))
            continue;
        assert_true(d.visitors <= RT_VISITORS);
        seen |= 1 << guest.record[RT_SEAL_HEAD];
        came++;
        rt_send_sealed(guest.socket, &guest.greeting.ours, &word, 1,
                       rt_clock_ns() + INT64_C(1000000000));
        close(guest.socket);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(one[i], &how);
        assert_ptr_equal(how, &number[i]);
    }
    assert_int_equal(seen, 2 | 4 | 8);
    crowd_ends = 1;
    pthread_join(them, NULL);
    rt_door_close(&d);
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/secret", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_vectors), cmocka_unit_test(sha256_pieces),
        cmocka_unit_test(hmac_vectors),   cmocka_unit_test(bytes_compare),
        cmocka_unit_test(secrets),        cmocka_unit_test(secret_files),
        cmocka_unit_test(greetings),      cmocka_unit_test(repeated),
        cmocka_unit_test(no_words),       cmocka_unit_test(seals),
        cmocka_unit_test(crowded)};

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
