package build

import (
	"context"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/naming"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
)

// eachObject lists the dataset's objects. It also counts the links that the store skips: links to
// files that this run would use, and all links to directories, which may contain such files.
func (b *builder) eachObject(ctx context.Context, visit func(objstore.Object) error) error {
	s, ok := b.store.(objstore.LinkLister)
	if !ok {
		return b.store.List(ctx, b.prefix, visit)
	}
	return s.ListLinks(ctx, b.prefix, visit, func(key string, dir bool) {
		key = strings.TrimPrefix(key, b.prefix)
		if layout.OwnObject(key) || !dir && !naming.Matches(b.opt.Match, key) || !b.opt.Hidden && format.Hidden(key) {
			return
		}
		if b.report.Links++; b.report.Links == 1 {
			b.report.Link = key
		}
	})
}
