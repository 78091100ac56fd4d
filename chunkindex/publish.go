package chunkindex

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/internal/objstore"
)

// Names of the objects beside a dataset. All of them lie under stateDir, which is never scanned for shards.
const (
	stateDir   = ".millrace/"
	indexDir   = stateDir + "index/"
	bindingDir = stateDir + "binding/"
	scanDir    = stateDir + "scan/"
	probeDir   = stateDir + "probe/"
	ownerDir   = stateDir + "owner/"
)

func indexObject(prefix, generation string) string { return prefix + indexDir + generation }

func bindingObject(prefix, generation, hash string) string {
	return prefix + bindingDir + generation + "-" + hash
}

// ownObject says whether a key, relative to the prefix, lies beside a dataset, here or further down.
func ownObject(key string) bool {
	return strings.HasPrefix(key, stateDir) || strings.Contains(key, "/"+stateDir)
}

func isDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && strings.ToLower(s) == s
}

// readSmall reads a whole object, as it was when obj was learned.
func readSmall(ctx context.Context, store objstore.Store, obj objstore.Object, limit int64) ([]byte, error) {
	if obj.Size == 0 || obj.Size > limit {
		return nil, fmt.Errorf("%s: %w: %d bytes", obj.Key, ErrCorrupt, obj.Size)
	}
	b := make([]byte, obj.Size)
	if err := store.ReadRange(ctx, obj.Ref(), 0, b); err != nil {
		return nil, err
	}
	return b, nil
}

// version is what a shard is bound to. says is the SHA-256 of what other objects said of the shard when it was scanned, empty if none did.
type version struct{ etag, version, says string }

// saysDigest is what a binding remembers of what other objects say of a shard.
func saysDigest(says string) string {
	if says == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(says))
	return string(sum[:])
}

const (
	bindingMagic = "MRBIND01" // the last two digits are the version
	bindingSays  = "MRBIND02" // the same, with a third string for each shard
	maxBinding   = 1 << 30
	maxVersion   = 1024 // bytes of an ETag, or of a version id
)

// encodeBinding returns a binding object: magic, generation, count, pairs, SHA-256.
func encodeBinding(generation string, versions []version) ([]byte, error) {
	digest, err := hex.DecodeString(generation)
	if err != nil {
		return nil, err
	}
	magic := bindingMagic
	if slices.ContainsFunc(versions, func(v version) bool { return v.says != "" }) {
		magic = bindingSays
	}
	b := append([]byte(magic), digest...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(versions)))
	for _, v := range versions {
		if len(v.etag) > maxVersion || len(v.version) > maxVersion {
			return nil, fmt.Errorf("ETag %.40q or its version id is longer than %d bytes", v.etag, maxVersion)
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(len(v.etag)))
		b = append(b, v.etag...)
		b = binary.LittleEndian.AppendUint16(b, uint16(len(v.version)))
		b = append(b, v.version...)
		if magic == bindingSays {
			b = binary.LittleEndian.AppendUint16(b, uint16(len(v.says)))
			b = append(b, v.says...)
		}
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}

func bindingHash(b []byte) string { return hex.EncodeToString(b[len(b)-sha256.Size:]) }

func decodeBinding(b []byte, generation string, shards int) ([]version, error) {
	n := len(b) - sha256.Size
	if n < len(bindingMagic)+36 || !bytes.HasPrefix(b, []byte(bindingMagic[:6])) {
		return nil, errMalformed
	}
	if sum := sha256.Sum256(b[:n]); !bytes.Equal(sum[:], b[n:]) {
		return nil, errors.New("digest is wrong")
	}
	says := string(b[:8]) == bindingSays
	if v := string(b[6:8]); !says && v != bindingMagic[6:] {
		return nil, newer("version", v)
	}
	if hex.EncodeToString(b[8:40]) != generation {
		return nil, errors.New("it belongs to another generation")
	}
	if count := binary.LittleEndian.Uint32(b[40:]); uint64(count) != uint64(shards) {
		return nil, fmt.Errorf("it has %d shards, the index %d", count, shards)
	}
	b = b[44:n]
	next := func() (string, bool) {
		if len(b) < 2 {
			return "", false
		}
		size := int(binary.LittleEndian.Uint16(b))
		if size > maxVersion || size > len(b)-2 {
			return "", false
		}
		s := string(b[2 : 2+size])
		b = b[2+size:]
		return s, true
	}
	if shards > len(b)/4 {
		return nil, errMalformed
	}
	out := make([]version, shards)
	for i := range out {
		etag, ok1 := next()
		id, ok2 := next()
		said, ok3 := "", true
		if says {
			said, ok3 = next()
		}
		if !ok1 || !ok2 || !ok3 || etag == "" || len(said) != 0 && len(said) != sha256.Size {
			return nil, fmt.Errorf("shard %d: %w", i, errMalformed)
		}
		out[i] = version{etag, id, said}
	}
	if len(b) != 0 {
		return nil, errMalformed
	}
	return out, nil
}

func readBinding(ctx context.Context, store objstore.Store, key, generation string, shards int) ([]version, error) {
	obj, err := store.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	b, err := readSmall(ctx, store, obj, min(maxBinding, maxPointer+int64(shards)*(6+2*maxVersion+sha256.Size)))
	if err != nil {
		return nil, err
	}
	v, err := decodeBinding(b, generation, shards)
	if err == nil && !strings.HasSuffix(key, "-"+bindingHash(b)) {
		err = errors.New("it is not the one that was asked for")
	}
	if errors.Is(err, ErrVersion) {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", key, ErrCorrupt, err)
	}
	return v, nil
}

// probe finds out whether the store of an index honours conditions on writes, on an object of its own.
func probe(ctx context.Context, at Place) error {
	key := at.Prefix + probeDir + rand.Text()
	put := func(text string, cond objstore.Condition) (objstore.Object, error) {
		return at.Store.Put(ctx, key, strings.NewReader(text), int64(len(text)), cond)
	}
	// What is left over harms nobody, and gc removes it.
	defer func() { _ = at.Store.Delete(context.WithoutCancel(ctx), key) }()
	failed := func(err error) error {
		if errors.Is(err, ErrReadOnly) {
			return err
		}
		return fmt.Errorf("probe for conditional writes (--single-writer does without them): %w", err)
	}
	obj, err := put("1", objstore.Condition{IfAbsent: true})
	if err != nil {
		return failed(err)
	}
	_, absent := put("2", objstore.Condition{IfAbsent: true})
	_, match := put("3", objstore.Condition{IfMatch: obj.ETag + "0"})
	for _, err := range []error{absent, match} {
		if err == nil {
			return errors.New("the store ignores conditions on writes, so two index runs could overwrite each other: use --single-writer if no other will run")
		}
		if !errors.Is(err, objstore.ErrChanged) {
			return failed(err)
		}
	}
	return nil
}

// publisher puts a new generation in place.
type publisher struct {
	store  objstore.Store
	prefix string
	name   string // of the index; empty: the default one
	single bool
	data   string // address of the shards, where they do not lie beside the index
	links  bool   // links are followed
	old    pointer
	oldObj objstore.Object // zero: there was no pointer
	index  *Index          // that the old pointer names; nil: it cannot be read
}

// publish writes index, binding and pointer, in this order. It reports whether the
// pointer named this already.
func (p *publisher) publish(ctx context.Context, b *built, binding []byte) (unchanged bool, err error) {
	next := pointer{Version: pointerVersion, Generation: b.generation, Binding: bindingHash(binding), Data: p.data, Links: p.links}
	if p.old == next && p.intact(ctx, b) {
		return true, nil
	}
	if err := p.noteOwner(ctx, b.generation); err != nil {
		return false, err
	}
	if p.old.Generation != b.generation || !p.intact(ctx, b) {
		// Written anew even if it is there: gc goes by the age of what nothing points to yet.
		if _, err := p.store.Put(ctx, indexObject(p.prefix, b.generation), b.file, b.size, objstore.Condition{}); err != nil {
			return false, err
		}
	}
	key := bindingObject(p.prefix, b.generation, next.Binding)
	if _, err := p.store.Put(ctx, key, bytes.NewReader(binding), int64(len(binding)), objstore.Condition{}); err != nil {
		return false, err
	}
	return false, p.point(ctx, next)
}

// intact reports whether the index object that should be there is, without damage. What was read of it has been proved.
func (p *publisher) intact(ctx context.Context, b *built) bool {
	obj, err := p.store.Stat(ctx, indexObject(p.prefix, b.generation))
	if err != nil || obj.Size != b.size {
		return false
	}
	return p.index == nil || p.index.pages.proveRest(ctx) == nil
}

func (p *publisher) point(ctx context.Context, next pointer) error {
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	var cond objstore.Condition
	switch {
	case p.single:
	case p.oldObj.ETag == "":
		cond.IfAbsent = true
	default:
		cond.IfMatch = p.oldObj.ETag
	}
	_, err = p.store.Put(ctx, pointerObject(p.prefix, p.name), bytes.NewReader(text), int64(len(text)), cond)
	if !errors.Is(err, objstore.ErrChanged) {
		return err
	}
	now, _, rerr := readPointer(ctx, p.store, p.prefix, p.name)
	if rerr != nil {
		return fmt.Errorf("another index run published meanwhile: %w", err)
	}
	if now == next {
		return nil // the other run found the same, or our own first answer was lost
	}
	return fmt.Errorf("another index run published generation %s meanwhile, ours is %s: run again to index what is there now: %w", now.Generation, next.Generation, err)
}
