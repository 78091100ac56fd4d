package pack

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-data/millrace/chunkindex/internal/parallel"
	"github.com/millrace-data/millrace/internal/objstore"
)

// finishedShard is one stored shard, as the state object records it.
type finishedShard struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	ETag   string `json:"etag"`
	SHA256 string `json:"sha256"`
	Stamp  string `json:"stamp"`
}

// state is the content of the state object and of a note.
type state struct {
	Version int             `json:"version"`
	Parts   int             `json:"parts,omitempty"` // number of machines that share the plan; 0: one machine packs all shards
	Shards  []finishedShard `json:"shards"`
}

const (
	own          = ".millrace/" // key prefix of Millrace's own objects, which are not shards
	ownFiles     = ".millrace-" // prefix of the file names of a directory's lock and of unfinished writes
	stateVersion = 1
	maxState     = 1 << 30
	// lastSave is the time that an interrupted run has for recording the stored shards.
	lastSave = 5 * time.Second
)

func (j *job) stateKey() string { return j.prefix + own + "pack/" + j.plan.hash + ".json" }

// notesDir returns the key prefix of the notes. Each note lists only the shards stored since the
// preceding note. n shards thus cost n entries in total, not n writes of the whole state.
func (j *job) notesDir() string { return j.prefix + own + "pack/" + j.plan.hash + "/" }

// prepareAttempts is the number of attempts that prepare makes while other runs of the same plan
// write the state.
const prepareAttempts = 5

// prepare reads the state of an earlier run of the same plan. If there is none, prepare checks that
// the prefix is free and stores an empty state, which reserves the plan's shard names. It starts
// over if another run, such as another part, creates or replaces the state or removes notes
// meanwhile.
func (j *job) prepare(ctx context.Context) (err error) {
	for attempt := range prepareAttempts {
		var known bool
		if known, err = j.load(ctx); err != nil {
			err = fmt.Errorf("pack: read state: %w", err) // the store's error names the object
		} else if err = j.occupied(ctx, known); err == nil && !known {
			err = j.save(ctx, j.stateKey(), nil, objstore.Condition{IfAbsent: true})
		}
		// Another part may have started and stored a shard after the state was read, so the
		// prefix is listed again.
		joins := attempt == 0 && !known && errors.Is(err, ErrOccupied)
		if !joins && !errors.Is(err, objstore.ErrChanged) && !errors.Is(err, objstore.ErrNotFound) {
			break
		}
	}
	return err
}

// load reads the state and the notes of interrupted runs.
func (j *job) load(ctx context.Context) (known bool, err error) {
	obj, err := j.store.Stat(ctx, j.stateKey())
	if errors.Is(err, objstore.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	objects := []objstore.Object{obj}
	j.notes = nil
	err = j.store.List(ctx, j.notesDir(), func(o objstore.Object) error {
		objects, j.notes = append(objects, o), append(j.notes, o.Key)
		return nil
	})
	if err != nil {
		return false, err
	}
	states := make([]state, len(objects))
	err = parallel.Each(ctx, j.opt.Parallel, len(objects), func(ctx context.Context, _, i int) error {
		return j.read(ctx, objects[i], &states[i])
	})
	if err != nil {
		return false, err
	}
	for _, s := range states {
		j.begun = max(j.begun, s.Parts)
		for _, f := range s.Shards {
			j.done[f.Name] = append(j.done[f.Name], f)
		}
	}
	return true, nil
}

// read reads a state or a note. An object that cannot be parsed counts as empty, and its shards are
// written again.
func (j *job) read(ctx context.Context, obj objstore.Object, s *state) error {
	if obj.Size > maxState {
		return fmt.Errorf("%s: it has %d bytes, more than the limit", obj.Key, obj.Size)
	}
	data := make([]byte, obj.Size)
	if len(data) > 0 {
		if err := j.store.ReadRange(ctx, obj.Ref(), 0, data); err != nil {
			return err
		}
	}
	if json.Unmarshal(data, s) != nil || s.Version != stateVersion {
		*s = state{}
	}
	return nil
}

// note records the shards stored since the preceding note. Its name is random, so no other machine
// uses it.
func (j *job) note(ctx context.Context, shards []finishedShard) error {
	key := j.notesDir() + rand.Text() + ".json"
	j.notes = append(j.notes, key)
	return j.save(ctx, key, shards, objstore.Condition{})
}

// settle merges the notes into the state at the end of a run.
func (j *job) settle(ctx context.Context) error {
	if len(j.notes) == 0 {
		return nil
	}
	if err := j.save(ctx, j.stateKey(), slices.Collect(maps.Values(j.stored)), objstore.Condition{}); err != nil {
		return err
	}
	err := parallel.Each(ctx, j.opt.Parallel, len(j.notes), func(ctx context.Context, _, i int) error {
		return j.store.Delete(ctx, j.notes[i])
	})
	if err != nil {
		return fmt.Errorf("pack: remove notes: %w", err)
	}
	return nil
}

// save writes a state or a note. After ctx ends, it may still run for lastSave, because the next
// run need not repeat the recorded shards.
func (j *job) save(ctx context.Context, key string, shards []finishedShard, cond objstore.Condition) error {
	saving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastSave, cancel) })()
	s := state{Version: stateVersion, Parts: j.opt.Share.Parts, Shards: append([]finishedShard{}, shards...)}
	slices.SortFunc(s.Shards, func(a, b finishedShard) int { return strings.Compare(a.Name, b.Name) })
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if _, err := j.store.Put(saving, key, bytes.NewReader(data), int64(len(data)), cond); err != nil {
		return fmt.Errorf("pack: write state: %w", err)
	}
	return nil
}

// occupied returns an error if the prefix contains shards that this plan does not write. It accepts
// shards with this plan's names only if its state object exists (known).
func (j *job) occupied(ctx context.Context, known bool) error {
	mine := map[string]bool{}
	if known {
		for _, s := range j.plan.shards {
			mine[s.name] = true
		}
	}
	var foreign []string
	err := j.store.List(ctx, j.prefix, func(o objstore.Object) error {
		name := strings.TrimPrefix(o.Key, j.prefix)
		if strings.HasSuffix(name, ".tar") && !strings.HasPrefix(name, own) && !mine[name] {
			foreign = append(foreign, o.Key)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	if len(foreign) > 0 {
		return fmt.Errorf("pack: %s: %w (they have other data, or come from a run with other files or options): choose an empty prefix, or remove these shards",
			list(foreign), ErrOccupied)
	}
	return nil
}

// confirm checks, at the end of a run, that no other program has written to the prefix meanwhile.
func (j *job) confirm(ctx context.Context) error {
	if err := j.occupied(ctx, true); err != nil {
		return err
	}
	missing := maps.Clone(j.stored)
	err := j.store.List(ctx, j.prefix+"shard-", func(o objstore.Object) error {
		name := strings.TrimPrefix(o.Key, j.prefix)
		f, ok := j.stored[name]
		if !ok {
			return nil
		}
		delete(missing, name)
		if f.ETag != o.ETag || f.Size != o.Size {
			return fmt.Errorf("%s was written by another program during this run: %w", o.Key, objstore.ErrChanged)
		}
		return nil
	})
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%s: removed during this run: %w", list(slices.Sorted(maps.Keys(missing))), objstore.ErrChanged)
	}
	if err != nil {
		return fmt.Errorf("pack: confirm (run again when no other program writes here): %w", err)
	}
	return nil
}
