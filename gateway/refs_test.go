package gateway_test

import (
	"github.com/millrace-data/millrace/internal/objstore"
)

// refOf returns the version of a shard that the index is bound to.
func refOf(r *rig, key string) objstore.Ref {
	for i := range r.index.Shards() {
		if s := r.index.Shard(i); s.Key == key {
			return objstore.Ref{Key: "data/" + key, ETag: s.ETag, VersionID: s.VersionID}
		}
	}
	r.t.Fatalf("the index has no shard %s", key)
	return objstore.Ref{}
}
