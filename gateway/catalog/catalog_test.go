package catalog

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// thing is an entry that counts calls of Close.
type thing struct {
	name, generation string
	needs            []*thing

	mu     sync.Mutex
	users  int
	closed int
	t      *testing.T
}

func (x *thing) Key() (string, string) { return x.name, x.generation }
func (x *thing) Needs() []*thing       { return x.needs }

func (x *thing) Close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.users > 0 || x.closed > 0 {
		x.t.Errorf("%s %s is closed while %d use it, %d times before", x.name, x.generation, x.users, x.closed)
	}
	x.closed++
}

func (x *thing) isClosed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.closed > 0
}

// use acquires an entry and returns it with its release function.
func use(t *testing.T, c *Catalog[*thing], name, generation string) (*thing, func()) {
	t.Helper()
	x, release, err := c.Acquire(t.Context(), name, generation)
	if err != nil {
		t.Fatalf("acquire %s %s: %v", name, generation, err)
	}
	x.mu.Lock()
	x.users++
	if x.closed > 0 {
		t.Errorf("%s %s was closed before", name, x.generation)
	}
	x.mu.Unlock()
	return x, func() {
		x.mu.Lock()
		x.users--
		x.mu.Unlock()
		release()
	}
}

func TestOlderGenerationsGoOnForTheirReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New[*thing](nil, nil)
		one, two := &thing{name: "a", generation: "1", t: t}, &thing{name: "a", generation: "2", t: t}
		c.Set([]*thing{one})
		got, release := use(t, c, "a", "")
		c.Set([]*thing{two})
		if now, end := use(t, c, "a", ""); got != one || now != two {
			t.Errorf("got %s and then %s, want 1 and 2", got.generation, now.generation)
		} else {
			end()
		}
		for range 5 { // a use within each minute keeps the generation open
			time.Sleep(rest - time.Second)
			_, end := use(t, c, "a", "1")
			end()
		}
		time.Sleep(3 * rest)
		if one.isClosed() {
			t.Error("it was closed while it is used")
		}
		release()
		time.Sleep(3 * rest)
		if !one.isClosed() || two.isClosed() {
			t.Errorf("closed: %v and %v, want the older one alone", one.isClosed(), two.isClosed())
		}
		if _, _, err := c.Acquire(t.Context(), "a", "1"); !errors.Is(err, ErrUnknown) {
			t.Errorf("got %v, want ErrUnknown", err)
		}
		c.Close()
	})
}

func TestWhatIsTakenOutGoesOnForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New[*thing](nil, nil)
		a, b := &thing{name: "a", generation: "1", t: t}, &thing{name: "b", generation: "1", t: t}
		c.Set([]*thing{a, b})
		c.Set([]*thing{b})
		if got := c.All(); !slices.Equal(got, []*thing{b}) {
			t.Errorf("got %d current, want b alone", len(got))
		}
		begun := time.Now()
		for { // a job that runs for ever
			x, end, err := c.Acquire(t.Context(), "a", "")
			if err != nil {
				break
			}
			if x != a {
				t.Fatal("got another one")
			}
			end()
			time.Sleep(rest / 2)
		}
		if took := time.Since(begun); took < grace || took > grace+rest {
			t.Errorf("it was served for %v, want %v", took, grace)
		}
		time.Sleep(2 * rest)
		if !a.isClosed() {
			t.Error("it is still open")
		}
		c.Set([]*thing{b, {name: "a", generation: "1", t: t}}) // serve it again
		_, end := use(t, c, "a", "")
		end()
		c.Close()
	})
}

// TestAnotherOneTakesItsPlace: existing users keep the replaced entry, and new users get the new
// one.
func TestAnotherOneTakesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New[*thing](nil, nil)
		a, again := &thing{name: "a", generation: "1", t: t}, &thing{name: "a", generation: "1", t: t}
		mixed := &thing{name: "m", generation: "1", needs: []*thing{a}, t: t}
		c.Set([]*thing{a, mixed})
		_, end := use(t, c, "a", "")
		_, endMixed := use(t, c, "m", "")
		c.Set([]*thing{again})
		if got, end := use(t, c, "a", "1"); got != again || !slices.Equal(c.All(), []*thing{again}) {
			t.Error("got the first one, want the second one")
		} else {
			end()
		}
		time.Sleep(2 * rest)
		if a.isClosed() {
			t.Error("the first one was closed while it is used")
		}
		end()
		time.Sleep(2 * rest)
		if a.isClosed() {
			t.Error("the first one was closed while a mixture needs it")
		}
		endMixed()
		time.Sleep(4 * rest)
		if !a.isClosed() || again.isClosed() {
			t.Errorf("closed: %v and %v, want the first one alone", a.isClosed(), again.isClosed())
		}
		c.Close()
	})
}

func TestGenerationsAreOpenedOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened []string
		gone := errors.New("gone")
		c := New(func(_ context.Context, name, generation string) (*thing, error) {
			time.Sleep(time.Second)
			opened = append(opened, name+generation)
			if generation == "x" {
				return nil, gone
			}
			return &thing{name: name, generation: generation, t: t}, nil
		}, never)
		c.Set([]*thing{{name: "a", generation: "3", t: t}})
		var wait sync.WaitGroup
		for range 20 {
			wait.Go(func() {
				_, end := use(t, c, "a", "1")
				defer end()
				if _, _, err := c.Acquire(t.Context(), "a", "x"); !errors.Is(err, gone) {
					t.Errorf("got %v, want why it is gone", err)
				}
				if _, _, err := c.Acquire(t.Context(), "b", "1"); !errors.Is(err, ErrUnknown) {
					t.Errorf("got %v, want ErrUnknown", err)
				}
			})
		}
		wait.Wait()
		if got := strings.Join(opened, " "); got != "a1 ax" {
			t.Errorf("opened %s, want each once", got)
		}
		var names []string
		for _, x := range c.Generations("a") {
			names = append(names, x.generation)
		}
		if got := strings.Join(names, " "); got != "3 1" {
			t.Errorf("got generations %s, want 3 1", got)
		}
		time.Sleep(3 * rest)
		if got := len(c.Generations("a")); got != 1 {
			t.Errorf("%d generations are open after a while, want 1", got)
		}
		if _, _, err := c.Acquire(t.Context(), "a", "x"); !errors.Is(err, gone) || len(opened) != 3 {
			t.Errorf("got %v after %d tries, want another try", err, len(opened))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, _, err := c.Acquire(ctx, "a", "2"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the caller's deadline", err)
		}
		time.Sleep(time.Second)
		c.Close()
	})
}

// TestCatalog_FindsGenerationsByTheirBeginnings: the beginning of a generation names the current
// one, an open one, or one that is opened and may be open by its whole name.
func TestCatalog_FindsGenerationsByTheirBeginnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened []*thing
		c := New(func(_ context.Context, name, generation string) (*thing, error) {
			time.Sleep(time.Second)
			if generation == "33" {
				return nil, ErrUnknown
			}
			opened = append(opened, &thing{name: name, generation: generation[:2] + "-whole", t: t})
			return opened[len(opened)-1], nil
		}, never)
		c.Set([]*thing{{name: "b", generation: "22-whole", t: t}, {name: "a", generation: "11-whole", t: t}})
		check := func(generation, want string) {
			got, end := use(t, c, "a", generation)
			end()
			if got.name != "a" || got.generation != want {
				t.Errorf("%s: got %s of %s, want %s of a", generation, got.generation, got.name, want)
			}
		}
		for _, q := range [][2]string{{"11", "11-whole"}, {"22", "22-whole"}, {"22-whole", "22-whole"}, {"22", "22-whole"}} {
			check(q[0], q[1])
		}
		if len(opened) != 1 {
			t.Errorf("opened %d times, want once", len(opened))
		}
		var both sync.WaitGroup // both are opened before either is found
		both.Go(func() { check("44-whole", "44-whole") })
		time.Sleep(time.Millisecond)
		both.Go(func() { check("44", "44-whole") })
		both.Wait()
		synctest.Wait()
		if len(opened) != 3 || opened[1].isClosed() || !opened[2].isClosed() {
			t.Errorf("opened %d times, want the second copy of 44-whole closed", len(opened))
		}
		if _, _, err := c.Acquire(t.Context(), "a", "33"); !errors.Is(err, ErrUnknown) {
			t.Errorf("got %v, want ErrUnknown", err)
		}
		c.Close()
	})
}

// never reports that no error is temporary.
func never(error) bool { return false }

// TestAStoreThatFailedIsAskedAgainSoon: an error of the store is cached for a short time, and the
// absence of a generation for longer.
func TestAStoreThatFailedIsAskedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("the store failed")
		tries := map[string]int{}
		c := New(func(_ context.Context, _, generation string) (*thing, error) {
			tries[generation]++
			if generation == "failed" {
				return nil, failed
			}
			return nil, errors.New("gone")
		}, func(err error) bool { return errors.Is(err, failed) })
		c.Set([]*thing{{name: "a", generation: "1", t: t}})
		for range 25 { // five seconds
			for _, generation := range []string{"failed", "gone"} {
				if _, _, err := c.Acquire(t.Context(), "a", generation); err == nil {
					t.Errorf("%s: got no error", generation)
				}
			}
			time.Sleep(200 * time.Millisecond)
		}
		if tries["failed"] != 5 || tries["gone"] != 1 {
			t.Errorf("got %v tries in five seconds, want one each second and one", tries)
		}
		c.Close()
	})
}

// TestAStoreThatHangsHoldsUpItsOwnDatasetAlone: generations of one name are opened sequentially,
// those of different names concurrently.
func TestAStoreThatHangsHoldsUpItsOwnDatasetAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opening := map[string]*atomic.Int64{"hung": {}, "well": {}}
		c := New(func(ctx context.Context, name, generation string) (*thing, error) {
			if now := opening[name].Add(1); now > 1 {
				t.Errorf("%d generations of %s are being opened at a time", now, name)
			}
			defer opening[name].Add(-1)
			if name == "hung" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			time.Sleep(time.Second)
			return &thing{name: name, generation: generation, t: t}, nil
		}, never)
		c.Set([]*thing{{name: "hung", generation: "1", t: t}, {name: "well", generation: "1", t: t}})
		var wait sync.WaitGroup
		for _, generation := range []string{"2", "3"} {
			wait.Go(func() {
				if _, _, err := c.Acquire(t.Context(), "hung", generation); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want that the time is over", err)
				}
			})
			wait.Go(func() {
				begun := time.Now()
				_, end := use(t, c, "well", generation)
				end()
				if took := time.Since(begun); took > 2*time.Second {
					t.Errorf("generation %s came after %v, want a second for each", generation, took)
				}
			})
		}
		wait.Wait()
		c.Close()
	})
}

// TestWhatIsNeededStaysOpen: a mixture keeps its sources open.
func TestWhatIsNeededStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New[*thing](nil, nil)
		source, next := &thing{name: "a", generation: "1", t: t}, &thing{name: "a", generation: "2", t: t}
		mixed := &thing{name: "m", generation: "1", needs: []*thing{source}, t: t}
		c.Set([]*thing{source, mixed})
		_, end := use(t, c, "m", "")
		c.Set([]*thing{next, {name: "m", generation: "2", needs: []*thing{next}, t: t}})
		time.Sleep(3 * rest)
		if source.isClosed() || mixed.isClosed() {
			t.Error("it was closed while it is used")
		}
		end()
		time.Sleep(4 * rest)
		if !source.isClosed() || !mixed.isClosed() {
			t.Errorf("closed: the source %v, the mixture %v; want both", source.isClosed(), mixed.isClosed())
		}
		c.Close()
	})
}

// TestManyChanges: for any order of changes and uses, no entry is closed while it is in use, and
// all entries are closed in the end.
func TestManyChanges(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			var all []*thing
			made := func(name, generation string, needs ...*thing) *thing {
				x := &thing{name: name, generation: generation, needs: needs, t: t}
				all = append(all, x)
				return x
			}
			c := New(func(_ context.Context, name, generation string) (*thing, error) { return made(name, generation), nil }, never)
			names, generations := []string{"a", "b", "c"}, []string{"1", "2", "3"}
			var ends []func()
			for range 100 {
				switch random.IntN(4) {
				case 0:
					var set []*thing
					for _, name := range names {
						generation := generations[random.IntN(3)]
						x, ok := c.Find(name, generation)
						if ok = ok && random.IntN(4) > 0; !ok { // otherwise a new entry replaces it
							x = made(name, generation)
						}
						if random.IntN(4) > 0 {
							set = append(set, x)
						} else if !ok {
							x.Close()
						}
					}
					if len(set) > 1 {
						set = append(set, made("m", keyOf(set[0]).generation+keyOf(set[1]).generation, set[0], set[1]))
					}
					c.Set(set)
				case 1:
					name, generation := append(names, "m")[random.IntN(4)], ""
					if name != "m" && random.IntN(2) == 0 {
						generation = generations[random.IntN(3)]
					}
					if _, ok := c.Current(name); ok {
						if x, release, err := c.Acquire(t.Context(), name, generation); err == nil {
							for _, y := range append([]*thing{x}, x.needs...) {
								y.mu.Lock()
								y.users++
								y.mu.Unlock()
							}
							ends = append(ends, func() {
								for _, y := range append([]*thing{x}, x.needs...) {
									y.mu.Lock()
									y.users--
									y.mu.Unlock()
								}
								release()
							})
						}
					}
				case 2:
					if n := len(ends); n > 0 {
						i := random.IntN(n)
						ends[i]()
						ends = append(ends[:i], ends[i+1:]...)
					}
				case 3:
					time.Sleep(time.Duration(random.Int64N(int64(2 * rest))))
				}
			}
			for _, end := range ends {
				end()
			}
			c.Close()
			synctest.Wait()
			for _, x := range all {
				if !x.isClosed() {
					t.Errorf("seed %d: %s %s is left open", seed, x.name, x.generation)
				}
			}
		})
	}
}
