package millrace_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/millrace-data/millrace"

// room is one row of the floor plan: the packages that a package may import outside its tests.
// Paths in ours are relative to the module. A row also applies to lower packages without a row; the
// row of a path that ends in "/*" applies only to those. A path in ours that ends in "/." excludes
// lower packages.
type room struct {
	ours    []string
	outside []string // path prefixes of libraries outside the standard library
	never   []string // standard packages (path prefixes) that the package must not import, since they would bypass an interface
}

// floorPlan returns the rows. A package without a row is an error.
func floorPlan() map[string]room {
	return map[string]room{
		".":                             {},
		"internal/objstore":             {ours: []string{"internal/objstore"}, never: []string{"net/http"}},
		"internal/testing/vectors":      {outside: []string{"github.com/google/go-cmp"}, never: []string{"net"}}, // tests only
		"internal/tempfile":             {never: []string{"net"}},
		"internal/testing/seeds":        {ours: []string{"internal/testing/race"}, never: []string{"net"}},                                                                           // tests only
		"internal/testing/bubble":       {ours: []string{"internal/testing/race"}, never: []string{"net", "os"}},                                                                     // tests only
		"internal/testing/race":         {never: []string{"net", "os"}},                                                                                                              // tests only
		"internal/testing/leaks":        {outside: []string{"go.uber.org/goleak"}, never: []string{"net"}},                                                                           // tests only
		"internal/testing/shaped":       {ours: []string{"internal/objstore"}, never: []string{"net"}},                                                                               // tests only
		"internal/testing/memstore":     {ours: []string{"internal/objstore"}, never: []string{"net"}},                                                                               // tests only
		"internal/testing/objstoretest": {ours: []string{"internal/objstore"}, never: []string{"net"}},                                                                               // tests only
		"internal/testing/certtest":     {ours: []string{"internal/certs"}, never: []string{"net/http"}},                                                                             // tests only
		"chunkindex/testing/codectest":  {ours: []string{"chunkindex/codec"}, outside: []string{"github.com/klauspost/compress", "github.com/ulikunitz/xz"}, never: []string{"net"}}, // tests only
		"chunkindex/testing/indextest":  {ours: []string{"chunkindex", "internal/objstore", "internal/testing/memstore"}, never: []string{"net"}},                                    // tests only
		"chunkindex/testing/rowstest":   {ours: []string{"chunkindex/rows"}, never: []string{"net"}},                                                                                 // tests only
		"chunkindex/testing/scantest":   {ours: []string{"chunkindex", "internal/objstore", "chunkindex/testing/indextest", "internal/testing/memstore"}, never: []string{"net"}},    // tests only
		"internal/testing/tracingtest":  {ours: []string{"internal/tracing"}, outside: []string{"go.opentelemetry.io/otel"}, never: []string{"net"}},                                 // tests only
		"internal/testing/memory":       {never: []string{"net", "os"}},                                                                                                              // tests only
		"internal/testing/shards":       {ours: []string{"internal/testing/memstore"}, never: []string{"net", "os"}},                                                                 // tests only
		"internal/testing/fulldisk":     {never: []string{"net"}},                                                                                                                    // tests only
		"internal/budget":               {never: []string{"net", "os"}},
		"internal/arrival":              {never: []string{"net", "os"}},
		"internal/pause":                {never: []string{"context", "net", "os"}},
		"internal/certs":                {ours: []string{"internal/certs"}, never: []string{"net/http"}},
		"internal/port":                 {ours: []string{"internal/loglimit", "internal/socket"}, outside: []string{"github.com/rs/zerolog"}},
		"internal/sending":              {ours: []string{"internal/socket"}},
		"internal/shared":               {ours: []string{"internal/budget"}, outside: []string{"golang.org/x/sys"}, never: []string{"net"}},
		"internal/loglimit":             {outside: []string{"github.com/rs/zerolog"}, never: []string{"net/http"}},
		"internal/socket":               {outside: []string{"golang.org/x/sys"}, never: []string{"net/http"}}, // socket options
		"shuffle": {
			never: []string{"context", "crypto/rand", "io", "log", "math/rand", "net", "os", "time"},
		},
		"chunkindex": {
			ours:  []string{"chunkindex/codec/.", "chunkindex/format/.", "chunkindex/framing", "chunkindex/internal", "internal/objstore", "internal/tempfile"},
			never: []string{"net"},
		},
		"chunkindex/internal/layout":   {ours: []string{"chunkindex/codec/.", "chunkindex/format/.", "internal/objstore"}, never: []string{"net", "os"}},
		"chunkindex/internal/parallel": {never: []string{"net", "os"}},
		"chunkindex/build": { // makes indexes: packages that serve batches do not import it
			ours:  []string{"chunkindex/.", "chunkindex/codec/.", "chunkindex/format", "chunkindex/framing", "chunkindex/internal", "chunkindex/rows", "internal/objstore", "internal/tempfile"},
			never: []string{"net"},
		},
		"chunkindex/rows":    {ours: []string{"chunkindex/rows"}, never: []string{"net", "os"}},
		"chunkindex/framing": {ours: []string{"chunkindex/format/.", "chunkindex/rows"}, never: []string{"context", "net", "os"}}, // the part of a format that serving needs
		"chunkindex/codec": {
			ours:    []string{"chunkindex/codec", "chunkindex/rows"},
			outside: []string{"github.com/klauspost/compress", "github.com/ulikunitz/xz"},
			never:   []string{"net", "os"},
		},
		"chunkindex/codec/rowgroup": {
			ours:    []string{"chunkindex/rows"},
			outside: []string{"github.com/andybalholm/brotli", "github.com/klauspost/compress", "github.com/pierrec/lz4"},
			never:   []string{"net", "os"},
		},
		"chunkindex/codec/*": {outside: []string{"github.com/klauspost/compress"}, never: []string{"net", "os"}},
		"chunkindex/codec/arrowbatch": {
			ours:    []string{"chunkindex/rows"},
			outside: []string{"github.com/klauspost/compress", "github.com/pierrec/lz4"},
			never:   []string{"net", "os"},
		},
		// Several formats may share a package, but no format imports another. A format that needs
		// nothing more needs no row.
		"chunkindex/format/*":          flat(),
		"chunkindex/format":            {ours: []string{"chunkindex/codec/.", "chunkindex/rows"}, never: []string{"net", "os"}},
		"chunkindex/format/hub":        {ours: []string{"chunkindex/format/naming", "chunkindex/rows"}, outside: []string{"go.yaml.in/yaml"}, never: []string{"net", "os"}},
		"chunkindex/format/naming":     {ours: []string{"chunkindex/format/."}, never: []string{"context", "net", "os"}},
		"chunkindex/format/offsets":    {ours: []string{"chunkindex/format/."}, never: []string{"net", "os"}},
		"chunkindex/format/rowscan":    {ours: []string{"chunkindex/codec/.", "chunkindex/format/.", "chunkindex/rows"}, never: []string{"net/http", "os"}},
		"chunkindex/format/arrowipc":   columnar("chunkindex/codec/arrowbatch", "chunkindex/format/offsets"),
		"chunkindex/format/csv":        flat("chunkindex/format/naming"),
		"chunkindex/format/files":      flat("chunkindex/format/naming"),
		"chunkindex/format/jsonl":      flat("chunkindex/codec/.", "chunkindex/codec/jsonvalue", "chunkindex/rows"),
		"chunkindex/format/litdata":    flat("chunkindex/codec/.", "chunkindex/format/offsets"),
		"chunkindex/format/mds":        {ours: flat("chunkindex/format/offsets").ours, outside: []string{"github.com/cespare/xxhash/v2", "github.com/zeebo/xxh3"}, never: []string{"net", "os"}},
		"chunkindex/format/parquet":    columnar("chunkindex/codec/rowgroup", "chunkindex/codec/arrowbatch"),
		"chunkindex/format/tokens":     flat("chunkindex/format/offsets"),
		"chunkindex/format/webdataset": flat("chunkindex/format/naming"),
		"chunkindex/format/zip": {
			ours:    flat("chunkindex/codec/.", "chunkindex/codec/zipmember", "chunkindex/format/naming", "chunkindex/rows").ours,
			outside: []string{"github.com/klauspost/compress"},
			never:   []string{"net", "os"},
		},
		"chunkindex/importance": {
			ours:    []string{"internal/objstore", "shuffle"},
			outside: []string{"golang.org/x/sync"},
			never:   []string{"net"},
		},
		"chunkindex/selection": {
			ours:  []string{"internal/objstore", "internal/tempfile"},
			never: []string{"net"},
		},
		"chunkindex/pack": {
			ours:    []string{"chunkindex/.", "chunkindex/build", "chunkindex/format/.", "chunkindex/format/naming", "internal/objstore", "internal/tempfile"},
			outside: []string{"github.com/klauspost/compress", "golang.org/x/sync"},
			never:   []string{"net"},
		},
		"datapath/chunkcache": {
			ours:    []string{"internal/budget"},
			outside: []string{"github.com/hashicorp/golang-lru", "golang.org/x/sync", "golang.org/x/sys"},
			never:   []string{"net"},
		},
		"datapath/batch":     {never: []string{"context", "net", "os"}}, // the types of a batch's bytes
		"datapath/diskcache": {ours: []string{"internal/pause"}, never: []string{"net"}},
		"datapath/policy": { // the decisions of a gateway, which a simulation predicts
			never: []string{"context", "crypto/rand", "io", "log", "math/rand", "net", "os", "sync"},
		},
		"datapath/lookahead": {
			ours:    []string{"shuffle"},
			outside: []string{"github.com/hashicorp/golang-lru"},
			never:   []string{"context", "crypto/rand", "io", "log", "math/rand", "net", "os"},
		},
		"cluster/placement": { // computes the owners of chunks
			never: []string{"context", "crypto/rand", "io", "log", "math/rand", "net", "os", "sync", "time"},
		},
		"cluster/peer": {
			ours:    []string{"shuffle", "internal/certs", "internal/port", "internal/loglimit", "internal/sending", "internal/tracing"},
			outside: []string{"github.com/rs/zerolog", "golang.org/x/sync"},
		},
		"cluster/discovery": { // finds addresses
			outside: []string{"github.com/rs/zerolog"},
		},
		"cluster": {
			ours:    []string{"cluster/discovery", "cluster/peer", "cluster/placement", "internal/tracing", "shuffle"},
			outside: []string{"github.com/rs/zerolog", "golang.org/x/sync"},
		},
		"datapath": {
			ours:    []string{"datapath/batch", "datapath/chunkcache", "chunkindex/.", "chunkindex/codec/.", "datapath/lookahead", "datapath/diskcache", "datapath/policy", "cluster/peer", "shuffle", "internal/objstore", "internal/arrival", "internal/budget", "internal/pause", "internal/tracing"},
			outside: []string{"golang.org/x/sync", "golang.org/x/time"},
			never:   []string{"net"},
		},
		"datapath/simulate": { // has a simulated clock: nothing here may use another clock or the outside world
			ours:  []string{"datapath/chunkcache", "datapath/lookahead", "datapath/policy", "cluster/placement", "internal/words", "shuffle"},
			never: []string{"crypto/rand", "log", "math/rand", "net", "os", "sync"},
		},
		"cmd/internal/predictions": { // reports of predictions for people and scripts
			ours: []string{"gateway/address", "cmd/internal/cli", "internal/words", "shuffle", "datapath/simulate"}, never: []string{"net", "os"}, // cli: text for counts
		},
		"s3backend": {
			ours:    []string{"internal/objstore", "internal/socket", "internal/tracing"},
			outside: []string{"github.com/minio/minio-go", "golang.org/x/sync", "golang.org/x/time"},
		},
		"gateway/address": {ours: []string{"chunkindex/.", "chunkindex/selection", "shuffle"}, never: []string{"net/http", "os", "context", "time"}}, // chunkindex: defaults; selection: steps
		"gateway/plans": {
			ours:    []string{"gateway/address", "chunkindex/.", "chunkindex/format/.", "chunkindex/framing", "chunkindex/importance", "chunkindex/selection", "shuffle"},
			outside: []string{"golang.org/x/sync"},
			never:   []string{"net", "os"},
		},
		"gateway/body": {
			ours:  []string{"gateway/address", "gateway/body/arrow", "gateway/plans", "chunkindex/.", "chunkindex/format/.", "chunkindex/framing", "chunkindex/rows", "datapath/batch", "shuffle"},
			never: []string{"net/http", "os"},
		},
		"internal/watch":          {never: []string{"net"}},
		"gateway/auth":            {ours: []string{"internal/watch"}, outside: []string{"github.com/go-jose/go-jose", "github.com/rs/zerolog", "go.yaml.in/yaml"}},
		"gateway/admission":       {outside: []string{"golang.org/x/time"}, never: []string{"net"}},
		"gateway/audit":           {never: []string{"net"}},
		"gateway/stats":           {ours: []string{"shuffle"}, never: []string{"net", "os", "context", "time"}}, // the model of /v1/stats
		"gateway/bottleneck":      {ours: []string{"gateway/stats", "internal/words"}, never: []string{"net", "os", "context"}},
		"gateway/conditional":     {},
		"gateway/dashboard":       {never: []string{"net", "os"}},
		"gateway/catalog":         {outside: []string{"golang.org/x/sync"}, never: []string{"net", "os"}},
		"gateway/origin":          {},
		"internal/tracing":        {ours: []string{"internal/tracing"}, outside: []string{"go.opentelemetry.io/otel"}, never: []string{"net", "os"}},
		"internal/tracing/export": {ours: []string{"internal/tracing"}, outside: []string{"go.opentelemetry.io/otel", "github.com/rs/zerolog", "golang.org/x/time"}},
		"gateway/timing":          {ours: []string{"datapath/batch"}, outside: []string{"github.com/prometheus/client_golang"}, never: []string{"net"}},
		"gateway": {
			ours: []string{
				"gateway/address", "gateway/admission", "gateway/audit", "gateway/auth", "gateway/body", "gateway/bottleneck", "gateway/catalog", "gateway/conditional", "gateway/dashboard", "gateway/origin", "gateway/plans", "gateway/stats", "internal/arrival", "internal/port", "internal/sending", "internal/tracing", "internal/words", "gateway/timing",
				"chunkindex/.", "chunkindex/format/.", "chunkindex/framing", "chunkindex/importance", "chunkindex/selection", "datapath/batch", "shuffle", "internal/objstore", "internal/budget", "internal/loglimit", "internal/shared", "internal/socket", // importance, selection: types, errors
			},
			outside: []string{
				"github.com/go-chi/chi", "github.com/rs/zerolog", "github.com/prometheus/client_golang",
				"github.com/prometheus/client_model", "golang.org/x/sync", "golang.org/x/sys", "golang.org/x/time",
			},
		},
		"client": {},
		"cmd/internal/node": { // the complete process, without flags
			ours: []string{
				"chunkindex/.", "cluster", "cluster/discovery", "datapath", "gateway", "chunkindex/importance", "internal/budget", "internal/certs",
				"cmd/internal/datasets", "cmd/internal/location", "internal/objstore", "internal/shared", "internal/tracing", "internal/watch", "cluster/peer", "s3backend", "chunkindex/selection", "shuffle",
			},
			outside: []string{"github.com/rs/zerolog", "github.com/dustin/go-humanize", "golang.org/x"},
		},
		"cmd/internal/datasets": { // datasets to serve, as named in files and flags
			ours:    []string{"gateway/address", "chunkindex/.", "cmd/internal/location"}, // address: the type of a mixture, names
			outside: []string{"go.yaml.in/yaml"},
		},
		"cmd/internal/location": {
			ours:    []string{"chunkindex/.", "chunkindex/codec/.", "chunkindex/format/.", "chunkindex/framing", "gateway/address", "internal/objstore", "s3backend", "chunkindex/selection"}, // address: the names of datasets
			outside: []string{"github.com/dustin/go-humanize"},
			never:   []string{"net/http"},
		},
		"cmd/internal/demo": {ours: []string{"chunkindex", "cmd/internal/location", "cmd/internal/node", "chunkindex/pack"}}, // demo without flags
		"cmd/internal/garbage": { // finds and explains the objects that gc removes
			ours:    []string{"chunkindex/.", "chunkindex/importance", "cmd/internal/cli", "internal/words", "internal/objstore", "chunkindex/selection"}, // cli: text for counts
			outside: []string{"github.com/dustin/go-humanize"},
			never:   []string{"net", "os"},
		},
		"cmd/internal/indexing": { // text output of index and pack
			ours:    []string{"chunkindex", "cmd/internal/cli", "internal/words", "cmd/internal/location", "internal/objstore", "cmd/internal/orders", "chunkindex/pack", "shuffle"}, // cli: text for counts
			outside: []string{"github.com/dustin/go-humanize"},
		},
		"cmd/internal/inventory": { // text output of info and the lists
			ours:    []string{"chunkindex/.", "chunkindex/format", "client", "chunkindex/importance", "cmd/internal/cli", "internal/words", "cmd/internal/location", "internal/objstore", "chunkindex/selection"},
			outside: []string{"github.com/dustin/go-humanize", "golang.org/x/sys"},
		},
		"cmd/internal/occurrences": { // finds the batches that contained a sample, from a gateway or an index
			ours: []string{
				"chunkindex/.", "client", "gateway/address", "gateway/body", "gateway/plans", "chunkindex/importance", "cmd/internal/cli", "internal/words", "cmd/internal/inventory",
				"cmd/internal/location", "internal/objstore", "cmd/internal/reach",
			},
			never: []string{"net/http", "os"},
		},
		"cmd/internal/reach": {ours: []string{"client", "cmd/internal/location"}},
		"cmd/internal/top": { // the live view of gateways in a terminal
			ours:    []string{"client", "internal/words", "cmd/internal/reach", "gateway/stats"}, // reach: advice for a gateway that does not answer
			outside: []string{"github.com/mattn/go-runewidth", "golang.org/x/sys"},
		},
		"cmd/internal/orders": { // compares the orders of a dataset, and explains the one that a gateway reads
			ours:    []string{"chunkindex/.", "chunkindex/codec/.", "client", "gateway/address", "cmd/internal/cli", "internal/words", "shuffle", "datapath/simulate"}, // address: which shuffles have a window; cli: text for counts
			outside: []string{"github.com/dustin/go-humanize"},
			never:   []string{"net", "os"},
		},
		"internal/words": {outside: []string{"github.com/dustin/go-humanize"}, never: []string{"net", "os"}},
		"cmd/internal/cli": { // flags, environment, configuration file, exit, progress
			ours: []string{"chunkindex/.", "internal/words"}, // chunkindex: the type of a progress report
			outside: []string{
				"github.com/spf13", "github.com/rs/zerolog", "github.com/vbauerster/mpb", "github.com/dustin/go-humanize",
				"github.com/mattn/go-isatty", "go.yaml.in/yaml",
			},
			never: []string{"net"},
		},
		"cmd/millrace": {
			ours: []string{
				"datapath/chunkcache", "chunkindex", "client", "cluster/discovery", "datapath", "datapath/diskcache", "gateway", "chunkindex/importance", "internal", "cmd/internal", "chunkindex/pack", "cluster/peer",
				"s3backend", "chunkindex/selection", "shuffle", "datapath/simulate",
			},
			outside: []string{
				"github.com/spf13", "github.com/rs/zerolog", "github.com/prometheus/client_golang",
				"github.com/vbauerster/mpb", "github.com/dustin/go-humanize", "github.com/mattn/go-isatty",
				"go.yaml.in/yaml", "golang.org/x",
			},
		},
	}
}

// flat returns the row of a format whose shards contain samples unchanged. more: further imports.
func flat(more ...string) room {
	return room{ours: append([]string{"chunkindex/format/.", "chunkindex/framing"}, more...), never: []string{"net", "os"}}
}

// columnar returns the row of a format whose samples are rows that a codec decodes.
func columnar(more ...string) room {
	return flat(append(more, "chunkindex/codec/.", "chunkindex/format/hub", "chunkindex/format/rowscan", "chunkindex/rows")...)
}

// onlyHere returns, for each library that only one package may import, that package. Tests count
// too. Packages that only tests import are exempt.
func onlyHere() map[string]string {
	return map[string]string{
		"github.com/minio/minio-go":       "s3backend",
		"github.com/go-chi/chi":           "gateway",
		"github.com/go-jose/go-jose":      "gateway/auth",
		"github.com/hashicorp/golang-lru": "datapath",
		"go.opentelemetry.io/otel":        "internal/tracing",
	}
}

// source is one parsed Go file.
type source struct {
	path  string // relative to the module root, with slashes
	dir   string
	test  bool
	text  []byte
	lines int
	set   *token.FileSet
	file  *ast.File
}

// sources returns every Go file of the repository, nested modules included. All tests share one
// parse.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("sources found: got %d, want the whole repository", len(all))
	}
	return all
}

var parsed = sync.OnceValues(func() ([]source, error) {
	var all []source
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "dist") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(set, p, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		slashed := filepath.ToSlash(p)
		all = append(all, source{
			path: slashed, dir: path.Dir(slashed), test: strings.HasSuffix(name, "_test.go"),
			text: text, lines: bytes.Count(text, []byte("\n")), set: set, file: f,
		})
		return nil
	})
	return all, err
})

func (s source) imports() []string {
	var paths []string
	for _, spec := range s.file.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// nested reports whether dir belongs to a nested module, whose imports are not restricted.
func nested(dir string) bool {
	return under(dir, "integration") || under(dir, "tools")
}

func under(p, prefix string) bool {
	return p == prefix || strings.HasPrefix(p, prefix+"/")
}

func underAny(p string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return under(p, prefix) || prefix == p+"/." })
}

func standard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

// rowFor returns the path of the row for dir: its own, or that of the nearest parent; "" if none.
func rowFor(plan map[string]room, dir string) string {
	if _, ok := plan[dir]; ok {
		return dir
	}
	for d := path.Dir(dir); d != "."; d = path.Dir(d) {
		for _, row := range []string{d + "/*", d} {
			if _, ok := plan[row]; ok {
				return row
			}
		}
	}
	return ""
}

func TestImportsFollowTheFloorPlan(t *testing.T) {
	plan := floorPlan()
	for _, s := range sources(t) {
		if s.test || nested(s.dir) {
			continue
		}
		row := rowFor(plan, s.dir)
		if row == "" {
			t.Errorf("%s: package %s has no row in floorPlan() of arch_test.go", s.path, s.dir)
			continue
		}
		for _, imp := range s.imports() {
			if fault := plan[row].fault(imp); fault != "" {
				t.Errorf("%s: imports %s, but row %q of floorPlan() in arch_test.go %s: if the package needs it, allow it in a row %q",
					s.path, imp, row, fault, s.dir)
			}
		}
	}
}

// floorOf returns the floor of a top-level folder. Folders import only from lower floors.
func floorOf(dir string) int {
	top, _, _ := strings.Cut(dir, "/")
	for i, floor := range [][]string{
		{"shuffle", "client", "internal"},
		{"chunkindex", "cluster", "s3backend"},
		{"datapath"},
		{"gateway"}, // of datapath, it may import only datapath/batch, the types of a batch's bytes
		{"cmd"},
	} {
		if slices.Contains(floor, top) {
			return 1 + i
		}
	}
	return 0
}

// testsOnly reports whether only tests may import the packages of a folder.
func testsOnly(dir string) bool {
	return under(dir, "internal/testing") || under(dir, "chunkindex/testing")
}

func TestImportsRunDownTheFloors(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || nested(s.dir) || s.dir == "." {
			continue
		}
		if floorOf(s.dir) == 0 {
			t.Errorf("%s: its folder has no floor", s.path)
		}
		for _, imp := range s.imports() {
			rel, ours := strings.CutPrefix(imp, module+"/")
			top, _, _ := strings.Cut(rel, "/")
			if testsOnly(rel) && !testsOnly(s.dir) {
				t.Errorf("%s: imports %s, which only tests may import", s.path, imp)
			}
			if ours && !under(s.dir, top) && (floorOf(rel) == 0 || floorOf(rel) >= floorOf(s.dir)) {
				t.Errorf("%s: imports %s, which is on no lower floor", s.path, imp)
			}
		}
	}
}

// TestServing_LinksNoScanner: packages that serve batches must not import scanners, even
// indirectly.
func TestServing_LinksNoScanner(t *testing.T) {
	imports := map[string][]string{}
	for _, s := range sources(t) {
		if !s.test {
			imports[s.dir] = append(imports[s.dir], s.imports()...)
		}
	}
	for _, served := range []string{"gateway", "datapath", "cmd/internal/node"} {
		linked := map[string]bool{served: true}
		for todo := []string{served}; len(todo) > 0; todo = todo[1:] {
			for _, imp := range imports[todo[0]] {
				if rel, ours := strings.CutPrefix(imp, module+"/"); ours && !linked[rel] {
					linked[rel] = true
					todo = append(todo, rel)
				}
			}
		}
		if !linked["chunkindex"] {
			t.Errorf("%s: got no reader of indexes among %d packages", served, len(linked))
		}
		for rel := range linked {
			if under(rel, "chunkindex/build") || under(rel, "chunkindex/format") && rel != "chunkindex/format" {
				t.Errorf("%s links %s, which only indexing needs", served, rel)
			}
		}
	}
}

// fault returns the reason why a package with this row may not import imp, "" if it may.
func (r room) fault(imp string) string {
	switch {
	case under(imp, module):
		rel := strings.TrimPrefix(strings.TrimPrefix(imp, module), "/")
		if rel == "" || !underAny(rel, r.ours) {
			return fmt.Sprintf("lacks %q in ours", rel)
		}
	case standard(imp):
		if underAny(imp, r.never) {
			return "excludes it in never"
		}
	case !underAny(imp, r.outside):
		return "lacks it in outside"
	}
	return ""
}

func TestFloorPlanRefusesWrongImports(t *testing.T) {
	plan := floorPlan()
	for _, c := range []struct{ dir, imp string }{
		{"shuffle", "time"},
		{"shuffle", module + "/chunkindex"},
		{"chunkindex/format/webdataset", "net/http"},
		{"chunkindex/format/tokens", module + "/chunkindex/format/records"},
		{"chunkindex/framing", module + "/chunkindex/format/mds"},
		{"gateway/body", module + "/chunkindex/format/mds"},
		{"chunkindex", module + "/datapath/chunkcache"},
		{"chunkindex", module + "/chunkindex/format/mds"},
		{"chunkindex", module + "/chunkindex/build"},
		{"gateway", module + "/datapath"},
		{"gateway", module + "/s3backend"},
		{"client", "golang.org/x/sync/errgroup"},
		{"datapath/chunkcache", module + "/internal/objstore"},
		{"internal/budget", module + "/shuffle"},
	} {
		row := rowFor(plan, c.dir)
		if row == "" || plan[row].fault(c.imp) == "" {
			t.Errorf("%s importing %s: got no fault, want one", c.dir, c.imp)
		}
	}
	for dir, want := range map[string]string{
		"newroom": "", "newroom/inner": "", ".": ".",
		"chunkindex/format": "chunkindex/format", "chunkindex/format/new": "chunkindex/format/*", "chunkindex/format/zip/inner": "chunkindex/format/zip",
	} {
		if got := rowFor(plan, dir); got != want {
			t.Errorf("%s: got the row %q, want %q", dir, got, want)
		}
	}
}

func TestSomeLibrariesLiveInOnePackage(t *testing.T) {
	for _, s := range sources(t) {
		for _, imp := range s.imports() {
			for lib, home := range onlyHere() {
				if under(imp, lib) && !under(s.dir, home) && !testsOnly(s.dir) {
					t.Errorf("%s: imports %s, which lives in %s alone", s.path, imp, home)
				}
			}
		}
	}
}

func TestEveryPackageHasOneComment(t *testing.T) {
	comments := map[string][]string{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		if _, ok := comments[s.dir]; !ok {
			comments[s.dir] = nil
		}
		if s.file.Doc != nil {
			comments[s.dir] = append(comments[s.dir], s.path)
		}
	}
	for dir, files := range comments {
		if len(files) != 1 {
			t.Errorf("%s: package comments in %v, want exactly one", dir, files)
		}
	}
}

func TestNoPackageHasAnEmptyName(t *testing.T) {
	vague := []string{"util", "utils", "common", "helper", "helpers", "types", "misc", "base"}
	for _, s := range sources(t) {
		if slices.Contains(vague, s.file.Name.Name) || slices.Contains(vague, path.Base(s.dir)) {
			t.Errorf("%s: package %s says nothing about what it holds", s.path, s.file.Name.Name)
		}
	}
}

func TestNoInitFunctions(t *testing.T) {
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: init() runs before anybody asked", s.path)
			}
		}
	}
}
