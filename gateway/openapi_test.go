package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/shuffle"
)

var update = flag.Bool("update", false, "write openapi.json and the generated parts of docs/errors.md")

// TestOpenAPI_FollowsFromRoutesAndParameters compares the served document with the tables that
// define it; go generate writes it.
func TestOpenAPI_FollowsFromRoutesAndParameters(t *testing.T) {
	schemas, err := os.ReadFile("testdata/schemas.json")
	if err != nil {
		t.Fatal(err)
	}
	d := document{parameters: object{}, headers: object{}, responses: object{}}
	if err := json.Unmarshal(schemas, &d.schemas); err != nil {
		t.Fatal(err)
	}
	resolved := resolvedSchema()
	d.schemas["Parameters"] = resolved
	for _, job := range []string{"Reader", "Ranks"} { // stats.Job embeds shuffle.Params
		for field := range reflect.TypeFor[shuffle.Params]().Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			d.schemas[job].(object)["properties"].(object)[name] = resolved["properties"].(object)[name]
		}
	}
	want, err := json.MarshalIndent(d.whole(t), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile("openapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(openAPIJSON, want) {
		t.Error("openapi.json is older than the tables of routes and parameters: run go generate ./gateway")
	}
}

type object = map[string]any

// document is an OpenAPI document under construction: the components to which its operations refer.
type document struct{ parameters, headers, responses, schemas object }

func (d *document) whole(t *testing.T) object {
	paths := object{}
	described := map[string]bool{}
	for _, row := range (&Gateway{}).dataRoutes() {
		key := row.method + " " + row.name()
		op, ok := operations()[key]
		if !ok {
			t.Errorf("%s: the route has no row in operations", key)
			continue
		}
		described[key] = true
		item, _ := paths[row.name()].(object)
		if item == nil {
			item = object{}
		}
		item[strings.ToLower(row.method)] = d.operation(row, op, "", op.id)
		if row.method == http.MethodGet {
			item["head"] = d.operation(row, op, " (headers only)", "head"+strings.ToUpper(op.id[:1])+op.id[1:])
		}
		paths[row.name()] = item
	}
	if len(described) != len(operations()) {
		t.Errorf("operations has %d rows, want those of the %d routes alone", len(operations()), len(described))
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Millrace", "version": "dev", "description": "A training-data gateway: a shuffled batch is an address.",
			"license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers": []any{object{"url": "/"}},
		"paths":   paths,
		"components": object{
			"parameters": d.parameters, "headers": d.headers, "responses": d.responses, "schemas": d.schemas,
			"securitySchemes": object{
				"bearer":      object{"type": "http", "scheme": "bearer", "description": "A token of the access file, or a JWT of one of its issuers."},
				"certificate": object{"type": "mutualTLS", "description": "A client certificate that an authority of --client-ca has signed."},
			},
		},
	}
}

// operation describes a method of a route. With a suffix it describes HEAD.
func (d *document) operation(row route, op operation, suffix, id string) object {
	head := suffix != ""
	parameters := []any{}
	for part := range strings.SplitSeq(row.name(), "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			parameters = append(parameters, d.parameter(strings.TrimSuffix(name, "}")))
		}
	}
	for _, name := range op.query {
		parameters = append(parameters, d.parameter(name))
	}
	responses := object{}
	for status, a := range op.answers() {
		if !head || status != "206" {
			responses[status] = d.response(op.id+"-"+status, a, head)
		}
	}
	responses["default"] = d.response("Problem", answer{
		about: "Any error (RFC 9457).", schema: "Problem", media: "application/problem+json",
		headers: usual + " Retry-After? Allow? Content-Range? Vary? WWW-Authenticate?",
	}, head)
	out := object{
		"operationId": id, "summary": op.summary + suffix, "x-millrace-right": row.right.String(), "parameters": parameters, "responses": responses,
		"security": []any{object{"bearer": []any{}}, object{"certificate": []any{}}, object{}},
	}
	if row.right == auth.None {
		out["security"] = []any{}
	}
	if op.body != "" {
		out["requestBody"] = object{
			"description": "At most " + strconv.FormatInt(row.body>>10, 10) + " KiB of JSON.", "required": true,
			"content": object{"application/json": object{"schema": ref("schemas", op.body)}},
		}
	}
	return out
}

func ref(kind, name string) object { return object{"$ref": "#/components/" + kind + "/" + name} }

func (d *document) parameter(name string) object {
	known := knownParameters()[name]
	p := object{"name": cmp.Or(known.name, name), "in": "query", "description": known.about, "schema": known.schema}
	if known.path {
		p["in"] = "path"
	}
	if known.path || known.required {
		p["required"] = true
	}
	d.parameters[name] = p
	return ref("parameters", name)
}

// response describes a response. A response to HEAD has the same headers and no body.
func (d *document) response(name string, a answer, head bool) object {
	if head {
		name += "-head"
	}
	headers := object{}
	for header := range strings.FieldsSeq(a.headers) {
		header, maybe := strings.CutSuffix(header, "?")
		component := header
		if maybe {
			component = "Maybe-" + header
		}
		d.headers[component] = object{"description": headerTexts()[header], "required": !maybe, "schema": object{"type": "string"}}
		headers[strings.TrimPrefix(header, "Page-")] = ref("headers", component)
	}
	out := object{"description": a.about, "headers": headers}
	content := object{}
	for media := range strings.FieldsSeq(a.media) {
		schema := object{"type": "string"}
		switch {
		case a.schema != "" && strings.HasSuffix(media, "json"):
			schema = ref("schemas", a.schema)
		case media == plain && !a.part:
			schema = object{"type": "object"}
		case !strings.HasPrefix(media, "text/") && media != "image/svg+xml":
			schema["format"] = "binary"
		}
		content[media] = object{"schema": schema}
	}
	if len(content) > 0 && !head {
		out["content"] = content
	}
	for _, known := range slices.Sorted(maps.Keys(d.responses)) {
		if reflect.DeepEqual(d.responses[known], out) {
			return ref("responses", known)
		}
	}
	d.responses[name] = out
	return ref("responses", name)
}

// resolvedSchema describes the parameters of a plan in the form of address.Plan.Values.
func resolvedSchema() object {
	properties := object{"mixture": object{"type": "boolean", "description": "Left out where the dataset is no mixture."}}
	least := address.DecodePlan(address.ParseQuery(""), address.Dataset{
		Defaults: chunkindex.Defaults{Shuffle: shuffle.None, BatchSize: 1, Tail: string(shuffle.Short)}, Generation: "any", Forms: []address.Form{{Name: "tar"}},
	}).Values()
	for _, r := range address.Parameters() {
		schema := parameterSchema(r)
		if r.Most > 0 && r.Name != "seed" {
			schema = object{"type": "integer", "minimum": r.Least, "maximum": r.Most}
		}
		schema["description"] = about(r)
		properties[r.Name] = schema
	}
	return object{"type": "object", "properties": properties, "required": slices.Sorted(maps.Keys(least)), "additionalProperties": false}
}

func about(r address.Parameter) string {
	return strings.ReplaceAll(cmp.Or(r.Doc, strings.ToUpper(strings.Trim(r.Help, "`")[:1])+strings.Trim(r.Help, "`")[1:]+"."), "`", "")
}

// parameterSchema returns the schema of a plan parameter.
func parameterSchema(r address.Parameter) object {
	switch digits := strconv.Itoa(len(strconv.FormatUint(r.Most, 10)) - 1); {
	case r.Words != nil:
		return object{"type": "string", "enum": r.Words}
	case r.Pattern != "":
		schema := object{"type": "string", "pattern": "^(" + r.Pattern + ")$"}
		if r.Longest > 0 {
			schema["maxLength"] = r.Longest
		}
		return schema
	case r.Most == 0:
		return object{"type": "string", "minLength": 1}
	case r.Least > 0:
		return object{"type": "string", "pattern": "^[1-9][0-9]{0," + digits + "}$"}
	default:
		return object{"type": "string", "pattern": "^(0|[1-9][0-9]{0," + digits + "})$"}
	}
}

// parameter is a parameter of a path or a query.
type parameter struct {
	name     string // if it differs from the parameter's key
	about    string
	schema   object
	path     bool
	required bool
}

// knownParameters returns the parameters of the table of plan parameters, and those of single
// routes.
func knownParameters() map[string]parameter {
	number := object{"type": "string", "pattern": "^(0|[1-9][0-9]{0,19})$"}
	few := object{"type": "string", "pattern": "^[1-9][0-9]{0,2}$"}
	text := object{"type": "string", "minLength": 1}
	all := map[string]parameter{
		"dataset": {about: "Name of the dataset; or mix: and sources with their shares, such as mix:photos:7,text(subset=train=9,val=1:train):3, " +
			"which is a mixture that this URL defines.", schema: object{"type": "string", "maxLength": 4096}, path: true},
		"epoch":    {about: "Number of the epoch, from 0.", schema: number, path: true},
		"batch":    {about: "Number of the global batch, from 0.", schema: number, path: true},
		"snapshot": {about: "Name of a snapshot of weights.", schema: object{"type": "string", "pattern": "^[0-9a-f]{64}$"}, path: true},
		"plan":     {about: "Parameters as in a query.", schema: object{"type": "string"}, path: true},
		"file":     {about: "Name of the file, such as index.json or that of a shard.", schema: object{"type": "string"}, path: true},
		"at": {about: "Positions in the epoch's order, from 0, with commas between them: 1024 at most. Their samples come in this order. A position may " +
			"come several times.", schema: object{"type": "string", "pattern": "^(0|[1-9][0-9]*)(,(0|[1-9][0-9]*))*$", "examples": []any{"3,17,99"}}, required: true},
		"key":        {about: "Key of the sample, escaped.", schema: text, required: true},
		"shard":      {about: "Shard of the sample, escaped: needed where several shards have the key.", schema: text},
		"epochs":     {about: "One epoch, or the first and the last of at most 1000: 0-9.", schema: object{"type": "string", "pattern": "^[0-9]+(-[0-9]+)?$"}, required: true},
		"skip":       {about: "Samples at the start of the batch that are not read, below its number of samples: ranks share the others.", schema: number},
		"readers":    {about: "Format of the readers: a list, or jobs with columns, a tenth of the size.", schema: object{"type": "string", "enum": []any{"list", "jobs"}, "default": "list"}},
		"warm_epoch": {name: "epoch", about: "Number of the epoch to warm for, 0 if left out.", schema: number},
		"from":       {about: "The first batch, or the first position to warm.", schema: object{"type": "integer", "minimum": 0}},
		"count":      {about: "How many batches, less at the end of the epoch.", schema: object{"type": "integer", "minimum": 1, "maximum": 1024}},
		"from_batch": {name: "from", about: "The first batch of the picture; 0 by default.", schema: number},
		"to":         {about: "The batch after the last one of the picture; by default the picture ends with the epoch.", schema: number},
		"from_chunk": {about: "The first chunk of the picture, with axis=drawn the first place; 0 by default.", schema: number},
		"to_chunk":   {about: "The chunk or place after the last one of the picture; by default all are in it.", schema: number},
		"columns":    {about: "Columns of the picture, 1 to 512; 256 by default. It has no more than batches.", schema: few},
		"rows":       {about: "Rows of the picture, 1 to 512; 256 by default. It has no more than chunks.", schema: few},
		"axis": {about: "Order of the rows: stored, the chunks' numbers in the dataset (default); drawn, their places in the sequence in which the epoch takes the chunks.",
			schema: object{"type": "string", "enum": []any{"stored", "drawn"}}},
		"reload": {name: "dataset", about: "Dataset whose index pointer to reload; without it those of all datasets. New datasets of the file are opened in either case.",
			schema: object{"type": "string"}},
	}
	for _, r := range address.Parameters() {
		all[r.Name] = parameter{about: about(r), schema: parameterSchema(r)}
	}
	return all
}

// headerTexts returns the descriptions of response headers.
func headerTexts() map[string]string {
	return map[string]string{
		"Accept-Ranges":                "bytes",
		"Allow":                        "With 405, and with OPTIONS.",
		"Cache-Control":                "immutable when the URL pins all data, an hour for what describes it, no-store for errors.",
		"Content-Disposition":          "attachment, with a name for the file: the bytes are untrusted data.",
		"Content-Encoding":             "gzip, where the caller accepts it.",
		"Content-Length":               "Always set.",
		"Content-Location":             "The canonical URL.",
		"Content-Range":                "Which part.",
		"Content-Security-Policy":      "sandbox: browsers do not render the data as a page.",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"ETag":                         "Strong; follows from the plan.",
		"Link":                         "The next batch.",
		"Location":                     "Where the snapshot is described, with its generation.",
		"Millrace-Batch":               "Number of the batch.",
		"Millrace-Batch-Cost":          "With balance: the sum of the costs of the global batch's samples; 0 counts as 1.",
		"Millrace-Batch-Samples":       "Samples of the global batch, without those of skip.",
		"Millrace-Batches":             "Batches of the epoch.",
		"Millrace-Crc32c":              "CRC-32C of the whole body.",
		"Millrace-Epoch":               "Number of the epoch.",
		"Millrace-Generation":          "Generation of the index.",
		"Millrace-Micro":               "With micro: the samples of each micro-batch of the body, separated by commas.",
		"Millrace-Padded":              "How many samples pad the last batch; left out where only reading the index would tell.",
		"Millrace-Samples":             "Samples in the body.",
		"Page-Content-Security-Policy": "The page's policy: only its own files, no markup out of text.",
		"Referrer-Policy":              "no-referrer",
		"Retry-After":                  "Seconds, where another attempt may succeed.",
		"Server-Timing":                "Time to the first byte: phases (edge, decode, wait, plan, locate, read), and the tiers that read asked (memory, disk, peer, store).",
		"Vary":                         "Request headers that the answer was chosen by.",
		"WWW-Authenticate":             "The challenge of a 401: whether credentials are missing or not valid.",
		"X-Content-Type-Options":       "nosniff",
		"X-Request-Id":                 "Echoed or made.",
	}
}

// Lists of response headers; a ? marks an optional header.
const (
	usual       = "Cache-Control X-Request-Id X-Content-Type-Options"
	data        = usual + " ETag Content-Length Accept-Ranges Content-Disposition Content-Security-Policy Millrace-Generation"
	timed       = " Millrace-Crc32c Server-Timing"
	ofPlan      = " Content-Location Millrace-Epoch Millrace-Batch Millrace-Batches"
	ofBatch     = ofPlan + " Millrace-Samples Millrace-Padded"
	ofGlobal    = " Millrace-Batch-Samples Millrace-Batch-Cost? Millrace-Micro?"
	ofDirectory = " Content-Location? Millrace-Epoch? Millrace-Batch? Millrace-Batches? Millrace-Samples? Millrace-Padded? Millrace-Batch-Samples? Millrace-Batch-Cost? Millrace-Micro? Millrace-Crc32c? Server-Timing? Link?"
	ofPage      = usual + " ETag Vary Content-Encoding? Page-Content-Security-Policy Referrer-Policy Cross-Origin-Opener-Policy Cross-Origin-Resource-Policy"
	ofRoot      = usual + " ETag? Vary Content-Encoding? Page-Content-Security-Policy? Referrer-Policy? Cross-Origin-Opener-Policy? Cross-Origin-Resource-Policy?"
	ofOrigin    = usual + " ETag Content-Location"

	plain = "application/json"
	forms = "application/x-tar multipart/mixed application/x-ndjson application/x-npy application/vnd.mosaicml.mds " +
		"application/vnd.apache.arrow.stream application/vnd.millrace.framed application/octet-stream"
)

type answer struct {
	about, media, schema, headers string
	part                          bool // sent for a Range request
}

// operation describes the responses of a route.
type operation struct {
	id, summary string
	query       []string // keys in knownParameters
	ok          answer
	created     string // meaning of status 201; "": never sent
	body        string // schema of the request body
}

// answers returns the successful responses by status. A response with an ETag may be 304, one with
// Accept-Ranges 206.
func (op operation) answers() map[string]answer {
	all := map[string]answer{"200": op.ok}
	headers := strings.Fields(op.ok.headers)
	if op.created != "" {
		created := op.ok
		created.about = op.created
		all["201"] = created
	}
	if slices.Contains(headers, "Accept-Ranges") {
		all["206"] = answer{about: "The part that Range asks for.", media: op.ok.media, headers: op.ok.headers + " Content-Range", part: true}
	}
	if strings.Contains(op.ok.headers, "ETag") {
		var kept []string
		for _, header := range headers {
			switch strings.TrimSuffix(header, "?") {
			case "Content-Length", "Accept-Ranges", "Content-Disposition", "Content-Security-Policy", "Millrace-Crc32c", "Server-Timing":
			case "ETag":
				kept = append(kept, "ETag")
			case "Millrace-Padded", "Millrace-Samples":
				kept = append(kept, strings.TrimSuffix(header, "?")+"?")
			case "Millrace-Batch-Cost", "Millrace-Micro":
			default:
				kept = append(kept, header)
			}
		}
		all["304"] = answer{about: "Not modified.", headers: strings.Join(kept, " ")}
	}
	return all
}

func operations() map[string]operation {
	const (
		dataset = "/v1/datasets/{dataset}"
		epoch   = dataset + "/epochs/{epoch}"
	)
	document := func(about, schema string) answer {
		return answer{about: about, media: plain, schema: schema, headers: usual}
	}
	text := func(about string) answer { return answer{about: about, media: "text/plain", headers: usual} }
	plan, single, shown, order := address.EpochNames(), address.BatchNames(), address.SamplesNames(), address.PlanNames()
	many := append(address.EpochNames(), "from", "count")
	view := address.NamesOf(address.Showing)
	generation := []string{"generation"}
	batch := answer{about: "The whole body.", media: forms, headers: data + ofBatch + ofGlobal + timed + " Vary Link?"}
	batches := answer{about: "The whole body.", media: "application/vnd.millrace.batches", headers: data + ofPlan + timed + " Vary Link?"}
	manifest := answer{about: "The samples in order.", media: plain, schema: "Manifest", headers: usual + " ETag Millrace-Generation" + ofBatch}
	samples, linked := batch, manifest
	samples.headers, linked.headers = data+ofBatch+timed+" Vary", manifest.headers+ofGlobal+" Link?"
	mds := answer{about: "The whole body.", media: "application/vnd.mosaicml.mds " + plain, headers: data + ofDirectory}
	wds := answer{about: "The whole body.", media: "application/x-tar " + plain, headers: data + ofDirectory}
	snapshot := answer{about: "The snapshot was stored already.", media: plain, schema: "Snapshot", headers: usual + " Location"}
	return map[string]operation{
		"GET /": {id: "root", summary: "The page for people (Accept: text/html), links for programs.",
			ok: answer{about: "The page, or links.", media: "text/html " + plain, schema: "Root", headers: ofRoot}},
		"GET /page/{file}": {id: "page", summary: "A file of the page: a script, a style or a picture, the same on every port.",
			ok: answer{about: "The file.", media: "text/javascript text/css image/svg+xml text/html text/plain", headers: ofPage}},
		"GET /epoch/{epoch}/batch/{batch}":           {id: "defaultBatch", summary: "A batch of the default dataset.", query: single, ok: batch},
		"GET /epoch/{epoch}/batches":                 {id: "defaultBatches", summary: "Consecutive batches of the default dataset, each behind a header.", query: many, ok: batches},
		"GET /v1/datasets":                           {id: "datasets", summary: "List the datasets.", ok: document("All datasets.", "Datasets")},
		"GET " + dataset:                             {id: "dataset", summary: "One dataset.", ok: document("The dataset.", "Dataset")},
		"GET " + epoch:                               {id: "epoch", summary: "The resolved plan.", query: plan, ok: answer{about: "The plan.", media: plain, schema: "Epoch", headers: ofOrigin}},
		"GET " + epoch + "/batches":                  {id: "batches", summary: "Consecutive batches, each behind a header.", query: many, ok: batches},
		"GET " + epoch + "/batches/{batch}":          {id: "batch", summary: "A batch.", query: single, ok: batch},
		"GET " + epoch + "/batches/{batch}/manifest": {id: "manifest", summary: "Which samples a batch holds, and where they are stored.", query: single, ok: linked},
		"GET " + epoch + "/samples":                  {id: "samples", summary: "Samples at some positions of the epoch's order, as one batch.", query: shown, ok: samples},
		"GET " + epoch + "/samples/manifest":         {id: "samplesManifest", summary: "Where samples are stored that are named by their positions.", query: shown, ok: manifest},
		"GET " + epoch + "/mds/{file}":               {id: "mds", summary: "A file of the epoch as an MDS dataset.", query: plan, ok: mds},
		"GET " + epoch + "/mds/{plan}/{file}":        {id: "mdsPlan", summary: "A file of the epoch as an MDS dataset.", query: plan, ok: mds},
		"GET " + epoch + "/wds/{file}":               {id: "wds", summary: "A file of the epoch as a directory of tars.", query: plan, ok: wds},
		"GET " + epoch + "/wds/{plan}/{file}":        {id: "wdsPlan", summary: "A file of the epoch as a directory of tars.", query: plan, ok: wds},
		"GET " + epoch + "/draws": {id: "draws", summary: "Which chunks the batches of an epoch draw from, as a picture.",
			query: append(plan, "from_batch", "to", "from_chunk", "to_chunk", "columns", "rows", "axis"), ok: answer{about: "The picture.", media: plain, schema: "Picture", headers: ofOrigin}},
		"GET " + dataset + "/sample": {id: "sample", summary: "One sample by its key.", query: append(view, "key", "shard", "generation"),
			ok: answer{about: "The sample.", media: forms, headers: data + " Content-Location Millrace-Samples Vary" + timed}},
		"GET " + dataset + "/occurrences": {id: "occurrences", summary: "Where a sample comes in some epochs.",
			query: append(address.NamesOf(address.Order|address.Choice|address.Batching|address.Sharing), "key", "shard", "epochs"), ok: document("The places.", "Occurrences")},
		"GET " + dataset + "/index": {id: "index", summary: "The index as it is stored: its root, then its segments.", query: generation,
			ok: answer{about: "The object.", media: "application/octet-stream", headers: data}},
		"POST " + dataset + "/warm": {id: "warm", summary: "Load what an epoch needs from a position on, for about a second.",
			query: append(order, "warm_epoch", "from"), ok: document("How far it came.", "Warmed")},
		"POST " + dataset + "/subsets": {id: "keepSubset", summary: "Store a subset by the keys of its samples, or one whose text is too long for an address.",
			query: generation, body: "KeepSubset", ok: document("The subset was stored already.", "KeptSubset"), created: "The subset is stored now."},
		"GET " + dataset + "/schedules": {id: "schedules", summary: "The schedules that are stored with the dataset, the newest first.", ok: document("Their digests.", "Schedules")},
		"POST " + dataset + "/schedules": {id: "keepSchedule", summary: "Store a schedule for mixtures whose first source is the dataset.",
			body: "KeepSchedule", ok: document("The schedule was stored already.", "KeptSchedule"), created: "The schedule is stored now."},
		"POST " + dataset + "/importance":           {id: "report", summary: "Report the losses of batches.", body: "Reports", ok: document("The losses are on record.", "Accepted")},
		"POST " + dataset + "/importance/snapshots": {id: "freeze", summary: "Freeze the losses of an epoch in a snapshot of weights.", body: "Freeze", ok: snapshot, created: "The snapshot is stored now."},
		"GET " + dataset + "/importance/{snapshot}": {id: "snapshot", summary: "Describe a snapshot of weights.", query: generation,
			ok: answer{about: "The snapshot.", media: plain, schema: "Snapshot", headers: usual + " ETag"}},
		"GET /openapi.json": {id: "spec", summary: "This document.", ok: document("The document.", "")},
		"GET /healthz":      {id: "health", summary: "Alive.", ok: text("Yes.")},
		"GET /readyz":       {id: "ready", summary: "Ready for requests; 503 while starting or draining.", ok: text("Yes.")},
		"GET /metrics": {id: "metrics", summary: "Prometheus metrics; only on the admin port where there is one.",
			ok: answer{about: "The metrics.", media: "text/plain", headers: usual + " Vary?"}},
		"GET /v1/cluster": {id: "cluster", summary: "The members of this gateway's cluster; 404 without one. Only on the admin port where there is one.",
			ok: document("The members.", "Cluster")},
		"GET /v1/stats": {id: "stats", summary: "The counters as JSON; only on the admin port where there is one.", query: []string{"readers"}, ok: document("The counters.", "Stats")},
		"POST /v1/reload": {id: "reload", summary: "Reload the datasets file and the pointers of all indexes; only on the admin port where there is one.",
			query: []string{"reload"}, ok: document("The datasets now, and what has changed.", "Reloaded")},
	}
}
