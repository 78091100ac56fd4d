package simulate

import "github.com/millrace-data/millrace/chunkcache"

// disk is the tier between memory and store. Like the disk cache it puts a chunk in another's place only where that saves a
// read: where it is needed sooner.
type disk struct {
	line   *line
	total  int64
	used   int64
	size   map[int32]int64
	policy chunkcache.Policy[int32]
	next   func(int32) int64
}

func newDisk(c *clock, size int64, rate float64, next func(int32) int64) *disk {
	return &disk{
		line: &line{clock: c, total: rate}, total: size, size: map[int32]int64{}, policy: chunkcache.NewPlan(next), next: next,
	}
}

// has reports whether a chunk can be read.
func (d *disk) has(chunk int32) bool { return d.size[chunk] > 0 }

// admit takes a chunk up if it should be here, and reports whether it was written.
func (d *disk) admit(chunk int32, n int64) bool {
	if d.has(chunk) || n > d.total {
		return false
	}
	mine := d.next(chunk)
	for d.used+n > d.total {
		victim, ok := d.policy.Victim()
		if !ok || d.next(victim) <= mine {
			return false
		}
		d.policy.Remove(victim)
		d.used -= d.size[victim]
		delete(d.size, victim)
	}
	d.policy.Add(chunk, n, 0)
	d.size[chunk] = n
	d.used += n
	return true
}

// keep writes a chunk that has come from the store to disk, if it is worth it.
func (g *gateway) keep(chunk int32) {
	n := g.data.Chunks[chunk].Length
	if g.disk == nil || !g.disk.admit(chunk, n) {
		return
	}
	g.count.DiskWrites += n
	g.disk.line.send(n, func() {})
}
