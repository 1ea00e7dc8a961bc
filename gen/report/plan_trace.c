/* SPDX-License-Identifier: Apache-2.0 */
/* plan_trace.c: `plan --trace`. In: a plan. Out: the last micro-step and the step's end
 * in Chrome's trace format, which ui.perfetto.dev opens: a track for each stream, what
 * each call waits for, and the bytes that are live. Times are in microseconds. */
#include "report/html.h"
#include "report/plan_line.h"

#include <inttypes.h>

static double us(int64_t ps)
{
    return (double)ps * 1e-6;
}

static void add_tracks(Gen *g, Text *t)
{
    html_add(t, "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":");
    html_json(g, t, g->model.name);
    html_add(t, "}}");
    for (int s = 0; s < N_STREAMS; s++)
        text_printf(t,
                    ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_name\","
                    "\"args\":{\"name\":\"%s\"}}",
                    s + 1, stream_name((StreamId)s));
}

static void add_call(Gen *g, Text *t, const PlanLine *l, const Instr *i)
{
    text_printf(t,
                ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":%.10g,\"dur\":%.10g,"
                "\"cat\":\"%s\",\"name\":",
                (int)i->stream + 1, us(l->start[i->id]),
                us(l->end[i->id] - l->start[i->id]), plan_call[plan_call_of(i)]);
    html_json(g, t, ins_label(g, i));
    text_printf(t, ",\"args\":{\"call\":%d", i->id);
    if (i->flops > 0)
        text_printf(t, ",\"flops\":%.17g", i->flops);
    if (ins_is_collective(i))
        text_printf(t, ",\"received_bytes\":%" PRId64, i->moved_bytes);
    for (int w = 0; w < i->n_waits; w++) {
        html_add(t, w ? "," : ",\"waits_for\":[");
        html_json(g, t, gen_printf(g, "%d: %s", i->waits[w], i->wait_why[w]));
    }
    html_add(t, i->n_waits ? "]}}" : "}}");
}

static void add_memory(Gen *g, Text *t, const PlanMoment *m)
{
    text_printf(t,
                ",\n{\"ph\":\"C\",\"pid\":1,\"ts\":%.10g,\"name\":\"live bytes\","
                "\"args\":{",
                us(m->ps));
    for (int k = 0; k < N_FOR; k++) {
        html_add(t, k ? "," : "");
        html_json(g, t, plan_for[k]);
        text_printf(t, ":%" PRId64, m->live[k]);
    }
    html_add(t, "}}");
}

void plan_trace(Gen *g, Text *t)
{
    const PlanLine l = plan_line(g);

    html_add(t, "{\"otherData\":{\"generator\":\"fsdpgen plan\",\"version\":"
                "\"" FSDPGEN_VERSION "\"},\n\"displayTimeUnit\":\"ms\","
                "\"traceEvents\":[\n");
    add_tracks(g, t);
    for (int id = l.first; id < l.first + l.count; id++)
        add_call(g, t, &l, &g->prog.ins.items[id]);
    for (int i = 0; i < l.moments.count; i++)
        add_memory(g, t, &l.moments.items[i]);
    html_add(t, "\n]}\n");
}
