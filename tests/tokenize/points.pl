# SPDX-License-Identifier: Apache-2.0
# points.pl COUNT SEED: random code points as text, the same on every machine: anywhere, in dense
# scripts, and what tokenizers treat apart (spaces, newlines, U+2581, added tokens).
use strict;
use warnings;
binmode STDOUT, ':utf8';
my ($count, $x) = @ARGV;

sub below { # a number below N; the low bits of such a generator are poor
    $x = ($x * 1103515245 + 12345) & 0x7fffffff;
    return ($x >> 8) % $_[0];
}
my @dense = (0x20, 0x30, 0x41, 0x61, 0xC0, 0x300, 0x370, 0x400, 0x5D0, 0x905, 0x1100, 0x2000,
    0x2160, 0x2560, 0x3040, 0x4E00, 0xAC00, 0xFB00, 0x1F600);
my @apart = (' ', '  ', "\n", "\n\n", "\t", "\x{2581}", "\x{2581}\x{2581}", "'s", 'the ', ' and',
    '<s>', '</s>', '<|user|>', '<|end|> ', '<bos>', '<0x0A>', "\x{85}", "\x{a0}", "\x{3000}");
for (my $n = 0; $n < $count;) {
    my $k = below(10);
    my $c = $k < 3 ? chr below(0x110000)
        : $k < 7 ? chr($dense[below(scalar @dense)] + below(80)) : $apart[below(scalar @apart)];
    next if $c =~ /[\x{D800}-\x{DFFF}]/;
    print $c;
    $n += length $c;
}
