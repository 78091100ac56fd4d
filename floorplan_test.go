package millrace_test

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
			outside: []string{"github.com/google/flatbuffers", "github.com/klauspost/compress", "github.com/pierrec/lz4"},
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
			ours:  []string{"chunkindex/internal/parallel", "internal/objstore", "shuffle"},
			never: []string{"net"},
		},
		"chunkindex/selection": {
			ours:  []string{"internal/objstore", "internal/tempfile"},
			never: []string{"net"},
		},
		"chunkindex/pack": {
			ours:    []string{"chunkindex/.", "chunkindex/build", "chunkindex/format/.", "chunkindex/format/naming", "chunkindex/internal/parallel", "internal/objstore", "internal/tempfile"},
			outside: []string{"github.com/klauspost/compress"},
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
		"client":        {ours: []string{"client/ledger"}},
		"client/ledger": {never: []string{"net/http", "os"}},
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
		"cmd/internal/costs": { // costs of samples, by their fields or from a file
			ours:  []string{"chunkindex/.", "chunkindex/format/.", "chunkindex/framing", "chunkindex/selection", "cmd/internal/location", "internal/words"},
			never: []string{"net/http"},
		},
		"cmd/internal/occurrences": { // finds the batches that contained a sample, from a gateway or an index
			ours: []string{
				"chunkindex/.", "client", "gateway/address", "gateway/body", "gateway/plans", "chunkindex/importance", "cmd/internal/cli", "internal/words", "cmd/internal/inventory",
				"cmd/internal/location", "internal/objstore", "cmd/internal/reach",
			},
			never: []string{"net/http", "os"},
		},
		"cmd/internal/audit": { // checks the ledgers of a run
			ours:  []string{"client/ledger", "cmd/internal/location", "cmd/internal/occurrences", "gateway/address", "gateway/plans", "internal/words"},
			never: []string{"net/http"},
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
				"github.com/spf13", "github.com/rs/zerolog", "github.com/dustin/go-humanize",
				"github.com/mattn/go-isatty", "go.yaml.in/yaml",
			},
			never: []string{"net"},
		},
		"cmd/millrace": {
			ours: []string{
				"datapath/chunkcache", "chunkindex", "client", "cluster/discovery", "datapath", "datapath/diskcache", "gateway", "chunkindex/importance", "internal", "cmd/internal", "chunkindex/pack", "cluster/peer",
				"s3backend", "chunkindex/selection", "shuffle", "datapath/policy", "datapath/simulate",
			},
			outside: []string{
				"github.com/spf13", "github.com/rs/zerolog", "github.com/prometheus/client_golang",
				"github.com/dustin/go-humanize", "github.com/mattn/go-isatty",
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
