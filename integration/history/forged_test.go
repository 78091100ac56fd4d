package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var data = toy{samples: 24, batch: 6}

// at returns the URL of rank 0 of 2 in epoch 0 of generation g1.
func at(batch int) string { return data.url("g1", 0, batch, 0, 2) }

// base returns a history without faults: two jobs read the same epoch, one with a change of its
// world size. Another epoch and another generation follow.
func base() events {
	var h events
	data.read(&h, "a0", "g1", 0, nil, part{0, 4, 2})
	data.read(&h, "b0", "g1", 0, nil, part{0, 2, 2}, part{2, 4, 3})
	data.read(&h, "a1", "g1", 1, nil, part{0, 4, 2})
	data.read(&h, "c0", "g2", 0, nil, part{0, 4, 2})
	return h
}

// change replaces the event of a job at a URL.
func (h events) change(job, address string, to func(e *Event)) {
	for i := range h {
		if h[i].Job == job && h[i].URL == address && h[i].Outcome == Whole {
			to(&h[i])
			return
		}
	}
	panic(job + " does not take " + address)
}

func (h *events) drop(match func(e Event) bool) {
	before := len(*h)
	if *h = slices.DeleteFunc(*h, match); len(*h) == before {
		panic("nothing was dropped")
	}
}

// inject inserts an event after the n-th.
func (h *events) inject(n int, e Event) {
	e.End = (*h)[n].End.Add(time.Microsecond)
	*h = slices.Insert(*h, n+1, e)
}

func flip(at int) func(*Event) {
	return func(e *Event) {
		b := slices.Clone(e.body)
		b[(at+len(b))%len(b)] ^= 1
		*e = e.WithBody(b)
	}
}

// bytesOf returns a change that gives an event the content of another URL.
func bytesOf(address string) func(*Event) {
	return func(e *Event) {
		_, samples, _ := data.Batch(address)
		e.Samples = samples
		*e = e.WithBody(data.good("", "", address).body)
	}
}

// forgery is a history with one fault, and the expected violation.
type forgery struct {
	name  string
	want  string
	blind bool // the checker has no plan
	forge func(h *events)
}

func forgeries() []forgery {
	return slices.Concat(contents(), orders(), ends())
}

// contents returns faults of single responses.
func contents() []forgery {
	again := func(to func(e *Event)) func(h *events) { // another client receives a different response later
		return func(h *events) {
			e := data.good("other", "", at(1))
			to(&e)
			h.inject(h.find(at(1), true)+3, e)
		}
	}
	bytesOnly := func(b func([]byte) []byte) func(e *Event) {
		return func(e *Event) { *e = e.WithBody(b(slices.Clone(e.body))) }
	}
	mine := func(to func(e *Event)) func(h *events) { // the first response of all for its URL
		return func(h *events) { h.change("a0", at(1), to) }
	}
	cut := func(n int) func(e *Event) { return bytesOnly(func(b []byte) []byte { return b[:len(b)-n] }) }
	return []forgery{
		{"second answer with the first byte flipped", "byte 0 of", true, again(flip(0))},
		{"second answer with the last byte flipped", "other bytes", true, again(flip(-1))},
		{"second answer with another ETag", "other ETag", true, again(func(e *Event) { e.ETag = "new" })},
		{"second answer one byte short", "other bytes", true, again(cut(1))},
		{"second answer one byte long", "other bytes", true, again(bytesOnly(func(b []byte) []byte { return append(b, 0) }))},
		{"second answer is empty", "0 bytes of SHA-256", true, again(bytesOnly(func([]byte) []byte { return nil }))},
		{"second answer is of another batch", "these are the bytes of " + at(0), true, again(bytesOf(at(0)))},
		{"second answer is of another rank", "other bytes", true, again(bytesOf(data.url("g1", 0, 1, 1, 2)))},
		{"second answer is of another world size", "other bytes", true, again(bytesOf(data.url("g1", 0, 1, 0, 3)))},
		{"second answer is of another epoch", "other bytes", true, again(bytesOf(data.url("g1", 1, 1, 0, 2)))},
		{"second answer is of another generation", "other bytes", true, again(bytesOf(data.url("g2", 0, 1, 0, 2)))},
		{"206 of another ETag", "other ETag", true, again(func(e *Event) { *e = Event{Client: "other", URL: e.URL, Outcome: Part, ETag: "new"} })},
		{"only answer with a byte flipped", "the plan", false, mine(flip(40))},
		{"only answer is truncated", "the plan", false, mine(cut(7))},
		{"only answer ends at a sample", "the plan", false, mine(cut(len(data.good("", "", at(1)).body) / 3))},
		{"only answer has bytes appended", "the plan", false, mine(bytesOnly(func(b []byte) []byte { return append(b, b...) }))},
		{"only answer is all zeros", "byte 0 of", false, mine(bytesOnly(func(b []byte) []byte { return make([]byte, len(b)) }))},
		{"only answer has two samples swapped", "byte 8 of 102", false, mine(bytesOnly(swapSamples))},
		{"only answer is of another batch", "the plan", false, mine(bytesOf(at(2)))},
		{"only answer is shifted by a byte", "the plan", false, mine(bytesOnly(func(b []byte) []byte { return append(b[1:], b[0]) }))},
		{"digest alone, of a client without bodies", "SHA-256", false, mine(func(e *Event) { e.body, e.SHA256[0] = nil, e.SHA256[0]^1 })},
		{"length alone, of a client without bodies", "other bytes", false, mine(func(e *Event) { e.body, e.Length = nil, e.Length-1 })},
		{"right bytes under the wrong URL", "these are the bytes of", false, func(h *events) {
			h.change("a0", at(3), bytesOf(at(2)))
		}},
		{"batches swapped", "these are the bytes of", false, func(h *events) {
			h.change("a0", at(1), bytesOf(at(2)))
			h.change("a0", at(2), bytesOf(at(1)))
		}},
		{"ranks swapped", "the plan", false, func(h *events) {
			h.change("a0", at(1), bytesOf(data.url("g1", 0, 1, 1, 2)))
			h.change("a0", data.url("g1", 0, 1, 1, 2), bytesOf(at(1)))
		}},
		{"one ETag for two batches", "one ETag, two contents", true, mine(func(e *Event) { e.ETag = "tag of " + at(0) })},
		{"stale generation", "stale generation", true, again(func(e *Event) { e.Generation = "g0" })},
		{"right bytes, samples named wrongly", "other samples", false, mine(func(e *Event) { e.Samples = []string{name(1), name(2), name(3)} })},
	}
}

// swapSamples swaps the first two samples of a body.
func swapSamples(b []byte) []byte {
	one := len(data.good("", "", at(1)).body) / 3
	return slices.Concat(b[one:2*one], b[:one], b[2*one:])
}

// orders returns faults in the deliveries of an epoch whose responses are all correct.
func orders() []forgery {
	take := func(h *events, job, after, address string) { // a job receives one more batch
		for i := range *h {
			if (*h)[i].Job == job && (*h)[i].URL == after {
				h.inject(i, data.good(job+"/0", job, address))
				return
			}
		}
		panic(after)
	}
	return []forgery{
		{"batch taken twice by a rank", "twice", true, func(h *events) { take(h, "a0", at(2), at(2)) }},
		{"batch taken by two ranks", "twice", true, func(h *events) { take(h, "a0", data.url("g1", 0, 2, 1, 2), at(2)) }},
		{"batch taken again after a resume", "twice", true, func(h *events) { take(h, "b0", data.url("g1", 0, 2, 0, 3), at(1)) }},
		{"samples taken again after another world size", "twice", true, func(h *events) {
			take(h, "b0", data.url("g1", 0, 2, 2, 3), data.url("g1", 0, 0, 0, 3))
		}},
		{"sample twice in one batch", "twice", true, func(h *events) {
			h.change("a0", at(0), func(e *Event) { e.Samples = append(slices.Clone(e.Samples), e.Samples[0]) })
		}},
		{"batch of another epoch in between", "epochs mixed", true, func(h *events) { take(h, "a0", at(1), data.url("g1", 1, 1, 0, 2)) }},
		{"other epoch in place of a batch, with the same samples", "epochs mixed", true, func(h *events) {
			h.change("a0", at(2), func(e *Event) { e.URL, e.ETag = data.url("g1", 5, 2, 0, 2), "" })
		}},
		{"another generation in an epoch", "generations mixed", true, func(h *events) {
			h.change("a0", at(3), func(e *Event) { *e = data.good("a0/0", "a0", data.url("g2", 0, 3, 0, 2)) })
		}},
		{"another generation under a URL that names none", "generations mixed", true, func(h *events) {
			for i := range *h {
				(*h)[i].URL = strings.Replace((*h)[i].URL, "generation=g1&", "", 1)
			}
			h.change("a0", "/v1/datasets/toy/epochs/0/batches/3?rank=0&world_size=2", func(e *Event) { e.Generation, e.ETag = "g2", "" })
		}},
	}
}

// ends returns incomplete epochs that are reported as complete.
func ends() []forgery {
	without := func(job string, urls ...string) func(h *events) {
		return func(h *events) { h.drop(func(e Event) bool { return e.Job == job && slices.Contains(urls, e.URL) }) }
	}
	return []forgery{
		{"first batch never taken", "never", true, without("a0", at(0))},
		{"last batch never taken", "never", true, without("a0", at(3))},
		{"share of one rank missing", "never", true, without("a0", data.url("g1", 0, 2, 1, 2))},
		{"batch skipped at a resume", "never", true, without("b0", data.url("g1", 0, 2, 0, 3), data.url("g1", 0, 2, 1, 3), data.url("g1", 0, 2, 2, 3))},
		{"rank never begins", "never", true, func(h *events) { h.drop(func(e Event) bool { return e.Client == "a0/1" }) }},
		{"nothing was taken", "took no sample", true, func(h *events) { h.drop(func(e Event) bool { return e.Job == "a0" && e.Outcome == Whole }) }},
		{"a broken answer is taken as the batch", "never", true, func(h *events) { h.change("a0", at(1), func(e *Event) { e.Outcome = Broken }) }},
		{"one sample left out of a batch", "never", true, func(h *events) {
			h.change("c0", data.url("g2", 0, 3, 0, 2), func(e *Event) { e.Samples = e.Samples[1:] })
		}},
		{"a sample that the dataset does not have", "never", true, func(h *events) {
			h.change("c0", data.url("g2", 0, 3, 0, 2), func(e *Event) { e.Samples = append(slices.Clone(e.Samples), "stranger") })
		}},
		{"one sample in place of another", "sample \"sample-", false, func(h *events) {
			h.change("a1", data.url("g1", 1, 3, 1, 2), func(e *Event) { e.Samples = append([]string{"stranger"}, e.Samples[1:]...) })
		}},
		{"outcome that does not exist", "unknown", true, func(h *events) { h.inject(0, Event{Outcome: "fine"}) }},
	}
}

// TestLog_FindsForgedHistories checks one forged history after another. Each violation names a
// client, a time and a URL.
func TestLog_FindsForgedHistories(t *testing.T) {
	for _, plan := range []Plan{nil, data} {
		if err := base().check(plan); err != nil {
			t.Fatalf("without a forgery: %v", err)
		}
	}
	all := forgeries()
	if len(all) < 40 {
		t.Errorf("got %d forgeries, want 40", len(all))
	}
	for _, f := range all {
		t.Run(f.name, func(t *testing.T) {
			h := base()
			f.forge(&h)
			plan := Plan(data)
			if f.blind {
				plan = nil
			}
			err := h.check(plan)
			if err == nil || !strings.Contains(err.Error(), f.want) {
				t.Fatalf("got %v, want %q", err, f.want)
			}
			if f.blind && h.check(data) == nil {
				t.Error("found without a plan, not with one")
			}
			if text := err.Error(); f.want != "unknown" && !strings.Contains(text, " at 00:16:4") {
				t.Errorf("got %s, want the time", text)
			}
		})
	}
}

// TestLog_ExpectsThePlanOfAGeneration forges the first response of a generation with a plan, and
// the only response of a generation without a plan.
func TestLog_ExpectsThePlanOfAGeneration(t *testing.T) {
	for job, generation := range map[string]string{"a0": "g1", "c0": "g2"} {
		l, h := New(nil), base()
		l.Expect("g1", data)
		h.change(job, data.url(generation, 0, 1, 0, 2), flip(3))
		for _, e := range h {
			l.Add(e)
		}
		if err := fmt.Sprint(l.Err()); strings.Contains(err, "is not what the plan") != (job == "a0") {
			t.Errorf("%s: got %s", generation, err)
		}
	}
}

// TestLog_AcceptsGoodHistories contains everything that clients may see: errors, incomplete bodies,
// retries, equal responses, resumes, other world sizes.
func TestLog_AcceptsGoodHistories(t *testing.T) {
	for name, make := range map[string]func(h *events){
		"errors in between": func(h *events) {
			h.inject(1, failed("a0/0", at(1), Refused))
			h.inject(1, failed("a0/0", at(1), Broken))
		},
		"a body that broke off has other bytes": func(h *events) {
			e := data.good("a0/0", "a0", at(1))
			flip(0)(&e)
			e.Outcome = Broken
			h.inject(1, e)
		},
		"equal answers of many gateways": func(h *events) {
			for i := range 5 {
				h.inject(i, data.good(fmt.Sprint("gateway ", i), "", at(2)))
			}
		},
		"a 206 of the same ETag": func(h *events) { h.inject(9, Event{Client: "x", URL: at(1), Outcome: Part, ETag: "tag of " + at(1)}) },
		"two URLs of one batch": func(h *events) {
			e := data.good("x", "", at(1))
			e.URL += "&tail=short"
			h.inject(9, e)
			h.inject(10, Event{Client: "x", URL: e.URL, Outcome: Part, ETag: e.ETag})
		},
		"a URL without a generation, before and after a change": func(h *events) {
			for _, generation := range []string{"g1", "g2"} {
				e := data.good("x", "", data.url(generation, 0, 1, 0, 2))
				e.URL = "/epoch/0/batch/1?rank=0&world_size=2"
				h.inject(9, e)
			}
		},
		"answers without an ETag":     func(h *events) { h.change("a0", at(1), func(e *Event) { e.ETag = "" }) },
		"a job that gives up":         func(h *events) { h.drop(func(e Event) bool { return e.Job == "b0" && e.Outcome == Completed }) },
		"a client that names nothing": func(h *events) { h.change("a0", at(1), func(e *Event) { e.Samples = nil }) },
		"a rank that resumes":         func(h *events) { data.read(h, "d0", "g1", 0, nil, part{0, 1, 1}, part{1, 3, 4}, part{3, 4, 1}) },
		"one job, epoch after epoch":  func(h *events) { data.read(h, "a0", "g1", 2, nil, part{0, 4, 2}) },
	} {
		t.Run(name, func(t *testing.T) {
			h := base()
			make(&h)
			if err := h.check(data); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLog_CountsWhatItDoesNotTell adds more violations than the log lists.
func TestLog_CountsWhatItDoesNotTell(t *testing.T) {
	l := New(nil)
	for range mostTold + 3 {
		l.Add(Event{})
	}
	if err := l.Err(); err == nil || !strings.HasSuffix(err.Error(), "and 3 more") || l.Events() != mostTold+3 {
		t.Errorf("got %v, want 3 more", err)
	}
}
