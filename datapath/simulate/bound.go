package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bound is a lower bound of an epoch's time, set by one part of the system.
type Bound struct {
	Name string // job, store, fetchers, disk, gateway or link
	Time time.Duration
	Sum  string // computation of Time, for display
}

// Bounds returns the lower bounds of an epoch's time, the largest first. They are computed from the
// counts of the epoch. An epoch that takes much longer than all of them has waits that do not
// overlap.
func (r *Result) Bounds(e *Epoch) []Bound {
	s := &r.Setting
	all := []Bound{r.job(e)}
	add := func(name string, n int64, rate float64, each string) {
		if rate > 0 && n > 0 {
			all = append(all, Bound{name, seconds(float64(n) / rate), fmt.Sprintf("%s / %s/s%s", Bytes(n), Bytes(int64(rate)), each)})
		}
	}
	add("store", e.StoreBytes, s.StoreRate, "")
	gateways := float64(s.Gateways)
	each := ""
	if s.Gateways > 1 {
		each = " of the gateways together"
	}
	add("disk", e.DiskBytes+e.DiskWrites, s.DiskRate*gateways, each)
	add("gateway", e.Served, s.ServeRate*gateways, each)
	one := ""
	if s.Gateways > 1 {
		one = " of the busiest gateway"
	}
	add("link", e.Busiest, s.LinkRate, one)
	if e.Reads > 0 {
		busy := float64(e.Reads) * s.FirstByte.Seconds()
		sum := fmt.Sprintf("%d reads x %v", e.Reads, s.FirstByte)
		if s.StoreStream > 0 {
			busy += float64(e.StoreBytes) / s.StoreStream
			sum += fmt.Sprintf(" + %s / %s/s of one read", Bytes(e.StoreBytes), Bytes(int64(s.StoreStream)))
		}
		all = append(all, Bound{"fetchers", seconds(busy / float64(s.Fetchers) / gateways), fmt.Sprintf("(%s) / %d fetchers", sum, s.Fetchers*s.Gateways)})
	}
	slices.SortStableFunc(all, func(a, b Bound) int { return int(b.Time - a.Time) })
	return all
}

// job returns the time for which the slowest rank computes.
func (r *Result) job(e *Epoch) Bound {
	s := &r.Setting
	slowest, speed := s.paces(len(e.Ranks))
	took := float64(r.Samples) / float64(len(e.Ranks)) * slowest * speed / s.Rate
	sum := fmt.Sprintf("%d samples / %.6g/s", r.Samples, s.Rate)
	if s.Skew > 1 {
		sum += fmt.Sprintf(", the slowest rank x %.3g", slowest*speed/float64(len(e.Ranks)))
	}
	return Bound{"job", seconds(took), sum}
}

// paces returns the slowest of n ranks' time per sample, relative to the fastest rank. It also
// returns the number of samples that all n ranks consume while the fastest rank consumes one.
func (s *Setting) paces(n int) (slowest, speed float64) {
	for i := range n {
		slowest = s.pace(i, n)
		speed += 1 / slowest
	}
	return slowest, speed
}

// pace returns the time per sample of rank i of n, relative to the fastest rank. The ranks are
// evenly spaced.
func (s *Setting) pace(i, n int) float64 {
	if n < 2 {
		return 1
	}
	return 1 + (s.Skew-1)*float64(i)/float64(n-1)
}

// Think returns the time for which a rank computes on the given number of samples. All ranks
// together consume Rate.
func (s *Setting) Think(rank int, samples uint64) time.Duration {
	_, speed := s.paces(s.Ranks)
	return seconds(s.pace(rank, s.Ranks) * speed / s.Rate * float64(samples))
}

// Bytes formats a number of bytes for display, in powers of ten.
func Bytes(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
	x, i := float64(n), 0
	for x >= 999.5 && i < len(units)-1 {
		x, i = x/1000, i+1
	}
	return fmt.Sprintf("%.3g %s", x, units[i])
}

// Span formats a duration for display, with three digits, or rounded to seconds or minutes.
func Span(d time.Duration) string {
	unit := time.Nanosecond
	for unit*1000 <= d {
		unit *= 10
	}
	switch {
	case d >= 10*time.Hour:
		unit = time.Minute
	case d >= time.Minute:
		unit = time.Second
	}
	text := d.Round(unit).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}
