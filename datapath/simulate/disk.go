package simulate

import "github.com/millrace-data/millrace/datapath/chunkcache"

// Concurrent reads and concurrent writes of the disk tier. A chunk stays in memory while it is
// written.
const (
	diskReads   = 8
	diskWriters = 2
)

// disk is the tier between memory and store. Like the disk cache it replaces a chunk only by a
// chunk that is needed sooner, which saves a read.
type disk struct {
	line    *line
	gate    gate
	total   int64
	taken   int64 // bytes taken by chunks that are being written
	shelf   *chunkcache.Shelf[int32]
	next    func(int32) int64
	queue   []int32        // chunks to be written
	writing map[int32]bool // chunks that are being written
}

func newDisk(l *line, size int64, next func(int32) int64, idle func()) *disk {
	return &disk{
		line: l, gate: gate{limit: diskReads, idle: idle}, total: size,
		shelf: chunkcache.NewShelf(next, nil), next: next, writing: map[int32]bool{},
	}
}

// readsDisk reports whether a chunk is read from disk.
func (g *gateway) readsDisk(chunk int32) bool { return g.disk != nil && g.disk.shelf.Has(chunk) }

// readDisk reads a chunk from disk. held reports whether the caller holds a place of the disk's
// gate.
func (g *gateway) readDisk(chunk int32, held bool, done func()) {
	n := g.data.Chunks[chunk].Length
	g.count.DiskReads++
	g.count.DiskBytes += n
	if held {
		g.disk.line.send(n, done)
		return
	}
	g.disk.gate.enter(func() {
		g.disk.line.send(n, func() {
			g.disk.gate.leave()
			done()
		})
	})
}

// keep offers a chunk that was read from the store to the disk.
func (g *gateway) keep(chunk int32) {
	if g.disk == nil {
		return
	}
	g.disk.queue = append(g.disk.queue, chunk)
	g.writeDisk()
}

// writeDisk writes queued chunks that are still in memory and worth writing.
func (g *gateway) writeDisk() {
	d := g.disk
	for len(d.writing) < diskWriters && len(d.queue) > 0 {
		chunk := d.queue[0]
		d.queue = d.queue[1:]
		n := g.data.Chunks[chunk].Length
		if d.shelf.Has(chunk) || d.writing[chunk] || !g.memory.shelf.Has(chunk) || !d.room(chunk, n) {
			continue
		}
		g.memory.shelf.Lease(chunk)
		d.writing[chunk] = true
		d.line.send(n, func() {
			delete(d.writing, chunk)
			g.count.DiskWrites += n
			d.taken -= n
			d.shelf.Put(chunk, n, 0)
			g.memory.release(chunk)
			g.writeDisk()
		})
	}
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
