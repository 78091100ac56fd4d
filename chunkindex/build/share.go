package build

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
)

// Share says which shards a run scans of an index that several machines make together. The zero value is the run that publishes:
// it joins what the parts left, or makes the index alone where no part was begun.
type Share struct {
	Part, Parts int                   // every Parts-th shard from shard Part on is scanned, and the scans are left beside the index; Parts 0: the run publishes
	Has         func(key string) bool // the shards of this part, where the caller divides them otherwise; nil: every Parts-th
	Rest        bool                  // a run that publishes scans what the parts have not left, instead of refusing
	Options     string                // the options that scans depend on, as a user types them: parts note them, so that a refusal can name them
}

// PartReport says what a run for one part has left.
type PartReport struct {
	Part   int   `json:"part"`
	Parts  int   `json:"parts"`
	Shards int   `json:"shards"` // whose scans lie beside the index now, or whose places the index has already
	Bytes  int64 `json:"bytes"`  // of these shards
}

// PartsError says that parts of an index have not left all that a run needs that joins them.
type PartsError struct {
	StartedParts                // the parts that were begun with the options of this run; else those that were begun last
	Same         bool           // they were begun with the options of this run
	Other        []StartedParts // parts that were begun with other options: this run cannot use their scans
	Shards       int            // of the dataset
	Bytes        int64          // of the shards that are missing
	Newer        int            // missing shards that were written after the parts were begun
	After        string         // one of them
	Lacks        []Lack         // by part
}

// StartedParts is the note of parts that were begun.
type StartedParts struct {
	Parts   int
	Options string
	at      time.Time
}

// Lack counts the shards of one part that are missing.
type Lack struct {
	Part, Shards int
	Example      string
}

func (e *PartsError) Error() string {
	n := 0
	for _, l := range e.Lacks {
		n += l.Shards
	}
	return fmt.Sprintf("%d of %d shards are missing, such as %s, of %d of %d parts", n, e.Shards, e.Lacks[0].Example, len(e.Lacks), e.Parts)
}

// Add counts a shard of a part that is missing.
func (e *PartsError) Add(part int, example string, shards int) {
	i, found := slices.BinarySearchFunc(e.Lacks, part, func(l Lack, part int) int { return cmp.Compare(l.Part, part) })
	if !found {
		e.Lacks = slices.Insert(e.Lacks, i, Lack{Part: part, Example: example})
	}
	e.Lacks[i].Shards += shards
}

// partsKey begins the keys of the notes of parts, below layout.ScanDir: gc removes them as it removes scans.
const partsKey = "parts-"

// partsNote says that parts of an index were begun. All parts of one index with the same options write the same note.
type partsNote struct {
	Version int    `json:"version"`
	Index   string `json:"index,omitempty"` // name of the index
	Data    string `json:"data,omitempty"`  // address of the shards, where they do not lie beside the index
	Parts   int    `json:"parts"`
	Options string `json:"options,omitempty"`
}

const partsVersion = 1

// noteParts notes that parts were begun. The first part's note stays: its time tells which shards were written since.
func (b *builder) noteParts(ctx context.Context) error {
	s := b.opt.Share
	text, err := json.Marshal(partsNote{partsVersion, b.opt.Name, b.opt.Data, s.Parts, s.Options})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	key := b.index.Prefix + layout.ScanDir + partsKey + hex.EncodeToString(sum[:])
	_, err = b.index.Store.Put(ctx, key, bytes.NewReader(text), int64(len(text)), objstore.Condition{IfAbsent: true})
	if errors.Is(err, objstore.ErrChanged) {
		return nil
	}
	return err
}

// readNotes reads the notes of parts. Those of this index are removed with the scans; those of another one have its scans spared. A
// note that cannot be read is no note.
func (b *builder) readNotes(ctx context.Context, notes []objstore.Object) error {
	for _, o := range notes {
		text, err := layout.ReadSmall(ctx, b.index.Store, o, layout.MaxPointer)
		if err != nil && !errors.Is(err, layout.ErrCorrupt) && !errors.Is(err, objstore.ErrNotFound) && !errors.Is(err, objstore.ErrChanged) {
			return err
		}
		var n partsNote
		switch {
		case json.Unmarshal(text, &n) != nil || n.Version != partsVersion || n.Parts < 1:
		case n.Index != b.opt.Name || n.Data != b.opt.Data:
			b.named = true
		default:
			b.notes = append(b.notes, o.Key)
			b.begun = append(b.begun, StartedParts{n.Parts, n.Options, o.Modified})
		}
	}
	slices.SortFunc(b.begun, func(x, y StartedParts) int { return y.at.Compare(x.at) }) // the last one first
	return nil
}

// share returns the units that this run needs scans of.
func (b *builder) share() (units []int) {
	s := b.opt.Share
	for i, u := range b.units {
		if s.Parts == 0 || s.Has == nil && i%s.Parts == s.Part || s.Has != nil && s.Has(b.key(u.from)) {
			units = append(units, i)
		}
	}
	if s.Parts == 0 {
		return units
	}
	p := &PartReport{Part: s.Part, Parts: s.Parts}
	for _, i := range units {
		p.Shards += b.units[i].to - b.units[i].from
		p.Bytes += b.bytes(b.units[i])
	}
	b.report.Part = p
	b.progress.Total, b.progress.Of = p.Bytes, p.Shards
	return units
}

// leave makes the scans of a part and leaves them for the run that joins the parts.
func (b *builder) leave(ctx context.Context, todo []int) error {
	if len(todo) == 0 {
		return nil
	}
	if err := b.noteParts(ctx); err != nil {
		return err
	}
	todo, err := b.takeKept(ctx, todo)
	if err != nil {
		return err
	}
	if err := b.scanAll(ctx, todo); err != nil {
		return err
	}
	if last := b.gathered.scans; len(last) > 0 {
		return b.storeScans(ctx, last)
	}
	return nil
}

// joinable refuses to publish while scans of parts that were begun are missing.
func (b *builder) joinable(todo []int) error {
	if len(todo) == 0 || len(b.begun) == 0 || b.opt.Share.Rest {
		return nil
	}
	e := &PartsError{StartedParts: b.begun[0], Shards: len(b.shards)}
	for _, begun := range b.begun {
		switch {
		case begun.Options != b.opt.Share.Options:
			e.Other = append(e.Other, begun)
		case !e.Same:
			e.StartedParts, e.Same = begun, true
		}
	}
	for _, i := range todo {
		u := b.units[i]
		e.Add(i%e.Parts, b.key(u.from), u.to-u.from)
		e.Bytes += b.bytes(u)
		for _, o := range b.shards[u.from:u.to] {
			if o.Modified.After(e.at) {
				e.Newer, e.After = e.Newer+1, strings.TrimPrefix(o.Key, b.prefix)
			}
		}
	}
	return e
}
