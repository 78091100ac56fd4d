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

// Share selects the shards of a run when several machines build one index. The zero value selects
// the publishing run: it joins the parts' scans, or scans all shards if no part was started.
type Share struct {
	Part, Parts int                   // scan every Parts-th shard, starting with shard Part, and store the scans; Parts 0: publish
	Has         func(key string) bool // selects the shards of this part; nil: every Parts-th shard
	Rest        bool                  // a publishing run scans missing shards instead of failing
	Options     string                // command-line options that affect scans; parts record them for error messages
}

// PartReport describes the result of a run for one part.
type PartReport struct {
	Part   int   `json:"part"`
	Parts  int   `json:"parts"`
	Shards int   `json:"shards"` // number of shards whose scans are now stored or whose chunks the index already has
	Bytes  int64 `json:"bytes"`  // total size of these shards
}

// PartsError reports that a run that joins parts did not find all of their stored scans.
type PartsError struct {
	StartedParts                // the parts started with this run's options; otherwise the most recently started parts
	Same         bool           // the parts were started with this run's options
	Other        []StartedParts // parts started with other options, whose scans this run cannot use
	Shards       int            // number of shards in the dataset
	Bytes        int64          // total size of the missing shards
	Newer        int            // number of missing shards that were written after the parts were started
	After        string         // key of one such shard
	Lacks        []Lack         // missing shards of each part, sorted by part
}

// StartedParts describes a note that records that parts were started.
type StartedParts struct {
	Parts   int
	Options string
	at      time.Time
}

// Lack counts the missing shards of one part.
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

// Add counts missing shards of a part.
func (e *PartsError) Add(part int, example string, shards int) {
	i, found := slices.BinarySearchFunc(e.Lacks, part, func(l Lack, part int) int { return cmp.Compare(l.Part, part) })
	if !found {
		e.Lacks = slices.Insert(e.Lacks, i, Lack{Part: part, Example: example})
	}
	e.Lacks[i].Shards += shards
}

// partsKey is the key prefix of parts notes below layout.ScanDir. Because of this location, gc
// removes them like scans.
const partsKey = "parts-"

// partsNote records that parts of an index were started. All parts with the same options write the
// same note.
type partsNote struct {
	Version int    `json:"version"`
	Index   string `json:"index,omitempty"` // index name
	Data    string `json:"data,omitempty"`  // address of the shards, if the index is stored elsewhere
	Parts   int    `json:"parts"`
	Options string `json:"options,omitempty"`
}

const partsVersion = 1

// noteParts writes the note. It does not replace an existing note, because the time of that note
// shows which shards were written later.
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

// readNotes reads the parts notes. It adds the notes of this index to the objects that are removed
// with its scans. A note of another index protects that index's scans. readNotes ignores unreadable
// notes.
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
	slices.SortFunc(b.begun, func(x, y StartedParts) int { return y.at.Compare(x.at) }) // newest first
	return nil
}

// share returns the units that this run must scan.
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

// leave scans the units of a part and stores their scans for the run that joins the parts.
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

// joinable returns a *PartsError if scans of started parts are missing.
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
