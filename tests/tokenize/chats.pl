# SPDX-License-Identifier: Apache-2.0
# chats.pl KIND COUNT SEED: random chats as JSON lines, the same on every machine. KIND: turns (user
# and assistant in turns), system (the same, often behind a system message), parts (contents that are
# lists of parts), tools (tools, tool calls, and their results).
use strict;
use warnings;
my ($kind, $count, $x) = @ARGV;

sub below {
    $x = ($x * 1103515245 + 12345) & 0x7fffffff;
    return ($x >> 8) % $_[0];
}

sub one { return $_[below(scalar @_)] }

# JSON text, within quotes
my @words = ('the', ' word', 'Hello', ' ', '  ', '\n', '\n\n', '\t', '.', '\"quoted\"', '\\\\', "caf\xc3\xa9",
    'e\u0301', "\xe4\xb8\xad\xe6\x96\x87", '\ud83d\ude00', '\u00a0', '\u2028', '<|im_end|>', '<|eot_id|>', '</s>',
    '<think>', 'so\n</think>\n\n', '{{ x }}', '{% if %}', "it's", '1.50', '\u001f', '\u007f', '&<>', '</tool_response>');

sub words {
    return join '', map { one(@words) } 1 .. below($_[0]);
}

sub content {
    return '"' . words(14) . '"' if $kind ne 'parts';
    return '[' . join(', ', map { '{"type": "text", "text": "' . words(6) . '"}' } 1 .. 1 + below(3)) . ']';
}

sub message { return sprintf '{"role": "%s", "content": %s}', @_ }

sub value {
    return one('1', '-7', '0.1', '2.50', '1e3', '1e-7', '12345678.9', 'true', 'false', 'null', '"' . words(4) . '"', '[1, [], {}]',
        '{"b": [1, "x"], "a": {}}', '1e16', '0.0001');
}

sub arguments { return '{' . join(', ', map { "\"k$_\": " . value() } 1 .. below(4)) . '}' }

sub tool {
    return sprintf '{"type": "function", "function": {"name": "f%d", "description": "%s", "parameters": %s}}', below(9),
        words(5), arguments();
}

sub calls {
    my @m = (sprintf '{"role": "assistant", "content": %s, "tool_calls": [{"type": "function", "function": {"name": "f%d", "arguments": %s}}]}',
        one('""', content()), below(9), arguments());
    push @m, message('tool', content()) for 1 .. 1 + below(2);
    return @m;
}

for (1 .. $count) {
    my @m;
    push @m, message('system', content()) if $kind ne 'turns' && below(2);
    for (0 .. below(4)) {
        push @m, message('user', content());
        push @m, calls() if $kind eq 'tools' && below(2);
        push @m, message('assistant', content());
    }
    pop @m if below(6) == 0 && @m > 2 && $kind ne 'tools';
    my $tools = $kind eq 'tools' && below(3) ? ', "tools": [' . join(', ', map { tool() } 1 .. 1 + below(2)) . ']' : '';
    printf "{\"messages\": [%s]%s}\n", join(', ', @m), $tools;
}
