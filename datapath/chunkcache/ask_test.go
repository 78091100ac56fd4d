package chunkcache

import (
	"slices"
	"testing"
)

// asked makes one choice among idle entries: first some that readers needed soon, then others, each
// identified by its number. It returns the numbers of the queried entries in order, and the chosen
// entry.
func asked(l *idle[int], due func(k int) int64) (order []int, e *entry[int]) {
	e, _ = l.last(AnyDue, func(e *entry[int], _ []place[int], _ int64) int64 {
		order = append(order, e.key)
		return due(e.key)
	})
	return order, e
}

// idleOf returns the given number of entries that readers needed soon, numbered from 0 on, followed
// by others.
func idleOf(soon, others int) (*idle[int], []*entry[int]) {
	l := newIdle[int]()
	all := make([]*entry[int], soon+others)
	for k := range all {
		all[k] = &entry[int]{key: k, cost: 1}
		l.bytes++
		if k < soon {
			l.soon.add(all[k])
		} else {
			l.others.add(all[k])
		}
	}
	return &l, all
}

// counted returns how many of the numbers are at least from and below to.
func counted(order []int, from, to int) (n int) {
	for _, k := range order {
		if from <= k && k < to {
			n++
		}
	}
	return n
}

// TestChoice_AsksByGroups checks which of many entries are queried: those that were needed soon,
// the runners-up, the oldest, the newest and some random others, each group only as far as useful.
func TestChoice_AsksByGroups(t *testing.T) {
	const soon, others = 6, 200
	later := func(k int) int64 { return Soon + 1 + int64(k) }
	for name, c := range map[string]struct {
		due    func(k int) int64
		asked  int // in all
		newest int // of the last 40 entries, the number queried other than at random, beginning with the newest
	}{
		"all are due later": {later, again + oldest + newest + drawn, newest},
		"the newest are due soon": {func(k int) int64 {
			if k >= soon+others-40 {
				return Soon
			}
			return later(k)
		}, again + oldest + latest + drawn, latest},
		"one of the newest is due soon": {func(k int) int64 {
			if k == soon+others-1 {
				return Soon
			}
			return later(k)
		}, again + oldest + newest + 1 + drawn, newest + 1},
		"no reader needs the third oldest": {func(k int) int64 {
			if k == soon+2 {
				return Never
			}
			return later(k)
		}, again + 3, 0},
		"no reader needs the last of the oldest": {func(k int) int64 {
			if k == soon+oldest-1 {
				return Never
			}
			return later(k)
		}, again + oldest, 0},
		"no reader needs one that was needed soon": {func(k int) int64 {
			if k == 0 {
				return Never
			}
			return later(k)
		}, again + oldest + newest + drawn, newest},
		"no reader needs one of the newest": {func(k int) int64 {
			if k == soon+others-2 {
				return Never
			}
			return later(k)
		}, again + oldest + newest + drawn, newest},
	} {
		l, _ := idleOf(soon, others)
		order, _ := asked(l, c.due)
		if len(order) != c.asked || !slices.Equal(order[:again], []int{0, 1, 2, 3}) {
			t.Errorf("%s: got %v asked, want %d with the first that were needed soon", name, order, c.asked)
			continue
		}
		if got := order[again:min(again+oldest, len(order))]; !slices.IsSorted(got) || got[0] != soon {
			t.Errorf("%s: got %v asked first of the others, want the oldest", name, got)
		}
		if c.newest > 0 {
			got := order[again+oldest : again+oldest+c.newest]
			if got[0] != soon+others-1 || counted(got, soon+others-c.newest, soon+others) != c.newest {
				t.Errorf("%s: got %v asked of the newest, want the last %d", name, got, c.newest)
			}
		}
	}
}

// TestChoice_AsksRunnersUpFirst checks that the runners-up of the last choice are queried before
// the oldest, even if no reader needs one of them now. They are not if no reader needed the last
// evicted entry.
func TestChoice_AsksRunnersUpFirst(t *testing.T) {
	l, all := idleOf(0, 200)
	later := func(k int) int64 { return Soon + 1 + int64(k) }
	_, went := asked(l, later)
	l.remove(went)
	runners := slices.Clone(l.runners[1:])
	order, _ := asked(l, func(k int) int64 {
		if k == runners[0].key {
			return Never
		}
		return later(k)
	})
	if len(runners) != runnerUp || len(order) != runnerUp+oldest+newest+drawn || order[0] != runners[0].key || order[runnerUp] != 0 {
		t.Errorf("got %v asked after %d runners-up, want these and then the oldest", order, len(runners))
	}
	if l.runners[0] != runners[0] {
		t.Fatal("got another one first, want the one that no reader needs")
	}
	order, _ = asked(l, later)
	if order[0] != all[0].key {
		t.Errorf("got %v asked, want the oldest first: the last one to go was needed by no reader", order[:3])
	}
	l, _ = idleOf(0, 200)
	_, went = asked(l, later)
	l.remove(went)
	var enough []int64
	_, _ = l.last(AnyDue, func(e *entry[int], _ []place[int], than int64) int64 {
		enough = append(enough, than)
		return later(e.key)
	})
	if enough[0] != Soon || enough[1] != later(l.runners[0].key)-1 {
		t.Errorf("got %d and %d as enough, want %d and then a time before the first runner-up is due", enough[0], enough[1], int64(Soon))
	}
}

// TestChoice_AsksAllOfFew checks that up to looks entries are all queried, and that of one more
// only some are.
func TestChoice_AsksAllOfFew(t *testing.T) {
	never := func(int) int64 { return Never }
	l, _ := idleOf(0, looks)
	if order, _ := asked(l, never); len(order) != looks {
		t.Errorf("got %d of %d asked, want all", len(order), looks)
	}
	l, _ = idleOf(0, looks+1)
	if order, _ := asked(l, never); len(order) != 1 {
		t.Errorf("got %d asked, want the oldest alone: no reader needs it", len(order))
	}
}

// TestChoice_TakesTurnsAmongThoseNeededSoon checks that queried entries of the soon list move to
// its end, or to the others if they are due later.
func TestChoice_TakesTurnsAmongThoseNeededSoon(t *testing.T) {
	l, all := idleOf(10, 100)
	_, _ = asked(l, func(k int) int64 {
		if k < 10 && k != 2 {
			return Soon
		}
		return Soon + 1 + int64(k)
	})
	var first []int
	for _, e := range l.soon.oldest(10) {
		first = append(first, e.key)
	}
	if !slices.Equal(first, []int{4, 5, 6, 7, 8, 9, 0, 1, 3}) || !l.others.has(all[2]) {
		t.Errorf("got %v in turn, want those behind the first four, and then the three of these that are needed soon", first)
	}
	l, _ = idleOf(40, 0)
	_, _ = asked(l, func(k int) int64 { return int64(k) })
	if first := l.soon.oldest(1); first[0].key != again {
		t.Errorf("got %d in turn where all are needed soon, want the one behind the first %d", first[0].key, again)
	}
	l, _ = idleOf(0, 100)
	e, more := l.last(AnyDue, func(*entry[int], []place[int], int64) int64 { return Soon })
	if e != nil || !more {
		t.Errorf("got %v, and more to ask: %v; want none yet of those that are needed soon", e, more)
	}
}
