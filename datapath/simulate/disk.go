package simulate

import (
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/policy"
)

// disk is the tier between memory and store. Like the disk cache it replaces a chunk only by a
// chunk that is needed sooner, which saves a read.
type disk struct {
	line    *line
	gate    *gate
	total   int64
	taken   int64 // bytes taken by chunks that are being written
	shelf   *chunkcache.Shelf[int32]
	next    func(int32) int64
	queue   []int32        // chunks to be written
	writing map[int32]bool // chunks that are being written
	writers int            // running writers
}

func newDisk(c *clock, s *Setting, next func(int32) int64, idle func()) *disk {
	return &disk{
		line: &line{total: s.DiskRate}, gate: newGate(c, policy.DiskReads, idle), total: s.DiskSize,
		shelf: chunkcache.NewShelf(next, nil), next: next, writing: map[int32]bool{},
	}
}

// readsDisk reports whether a chunk is read from disk.
func (g *gateway) readsDisk(chunk int32) bool { return g.disk != nil && g.disk.shelf.Has(chunk) }

// readDisk reads a chunk from disk. held reports whether the caller holds a place of the disk's
// gate.
func (g *gateway) readDisk(chunk int32, held bool) {
	n := g.data.Chunks[chunk].Length
	g.count.DiskReads++
	g.count.DiskBytes += n
	if !held {
		g.disk.gate.enter()
	}
	g.clock.transfer(n, nil, g.disk.line)
	if !held {
		g.disk.gate.leave()
	}
}

// keep offers a chunk that was read from the store to the disk.
func (g *gateway) keep(chunk int32) {
	d := g.disk
	if d == nil {
		return
	}
	if d.queue = append(d.queue, chunk); d.writers < policy.DiskWriters {
		d.writers++
		g.clock.start(g.writeDisk)
	}
}

// writeDisk writes queued chunks that are still in memory and worth writing.
func (g *gateway) writeDisk() {
	d := g.disk
	for len(d.queue) > 0 {
		chunk := d.queue[0]
		d.queue = d.queue[1:]
		n := g.data.Chunks[chunk].Length
		if d.shelf.Has(chunk) || d.writing[chunk] || !g.memory.shelf.Has(chunk) || !d.room(chunk, n) {
			continue
		}
		g.memory.shelf.Lease(chunk)
		d.writing[chunk] = true
		g.clock.transfer(n, nil, d.line)
		delete(d.writing, chunk)
		g.count.DiskWrites += n
		d.taken -= n
		d.shelf.Put(chunk, n, 0)
		g.memory.release(chunk)
	}
	d.writers--
}

// room makes room for a chunk by evicting chunks that are needed later. It reports whether there is
// room.
func (d *disk) room(chunk int32, n int64) bool {
	if n > d.total {
		return false
	}
	if missing := d.shelf.Bytes() + d.taken + n - d.total; missing > 0 {
		if due := d.next(chunk); due == chunkcache.Never || d.shelf.Evict(missing, due) < missing {
			return false
		}
	}
	d.taken += n
	return true
}
