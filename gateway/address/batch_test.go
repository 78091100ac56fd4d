package address

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/shuffle"
)

// ETags are part of the format, because caches outlive releases.
func TestETag_IsTheDigestOfTheAddress(t *testing.T) {
	d := photos()
	of := func(text string) string { return fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(text))) }
	plain := "batch_size=16&format=tar&generation=" + generation + "&rank=0&seed=7&shuffle=slot&tail=short&window=4&world_size=1"
	b, err := decode(d, "", "3", "5")
	if err != nil {
		t.Fatal(err)
	}
	json, err := decode(d, "format=json", "3", "5")
	if err != nil {
		t.Fatal(err)
	}
	mixed := b
	mixed.Dataset = "mix:a:1"
	q := ParseQuery("at=4,0,4", SamplesNames()...)
	at := DecodeSamples(q, d, "3")
	if err := d.Check(q); err != nil {
		t.Fatal(err)
	}
	named := "at=4,0,4&format=tar&generation=" + generation + "&seed=7&shuffle=slot&window=4"
	for i, c := range []struct{ got, want string }{
		{b.ETag(), of("millrace batch\norder 1\n3\n5\n" + plain + "\n")},
		{json.ETag(), of("millrace batch form 1\norder 1\n3\n5\n" + strings.Replace(plain, "tar", "json", 1) + "\n")},
		{mixed.ETag(), of("millrace batch of mix:a:1\norder 1\n3\n5\n" + plain + "\n")},
		{at.ETag(), of("millrace batch\norder 1\n3\n0\n" + named + "\n")},
		{b.BatchesETag(9), of("millrace batches 9\norder 1\n3\n5\n" + plain + "\n")},
		{b.DescriptionETag("manifest"), of("millrace manifest description 1\norder 1\n3\n5\n" + plain + "\n")},
		{Sample{Generation: generation, View: b.View}.ETag(8), of("millrace sample\n" + generation + "\n8\n")},
		{Sample{Generation: generation, View: json.View}.ETag(8), of("millrace sample\n" + generation + "\n8\nform 1 json\n\n\n")},
	} {
		if c.got != c.want {
			t.Errorf("case %d: got %s, want %s", i, c.got, c.want)
		}
	}
	const epochs = "/v1/datasets/photos/epochs/3"
	for got, want := range map[string]string{
		b.URL(Body, 5):      epochs + "/batches/5?" + plain,
		b.URL(Manifest, 6):  epochs + "/batches/6/manifest?" + plain,
		at.URL(Body, 0):     epochs + "/samples?" + named,
		at.URL(Manifest, 0): epochs + "/samples/manifest?" + named,
		b.EpochURL(4):       "/v1/datasets/photos/epochs/4?" + plain,
		b.BatchesURL(7, 2):  epochs + "/batches?" + plain + "&from=7&count=2",
		b.Identity():        "batch_size=16&generation=" + generation + "&seed=7&shuffle=slot&tail=short&window=4",
		Sample{Dataset: "photos", Generation: generation, Key: "a b", View: b.View}.URL():                                                        "/v1/datasets/photos/sample?generation=" + generation + "&key=a+b",
		Sample{Dataset: "photos", Generation: generation, Key: "a&", Shard: "s/1", View: json.View}.URL():                                        "/v1/datasets/photos/sample?format=json&generation=" + generation + "&key=a%26&shard=s%2F1",
		Sample{Dataset: "photos", Generation: generation, Key: "k", View: View{Form: d.Forms[1], Fields: []string{"a", "b+"}, Keys: true}}.URL(): "/v1/datasets/photos/sample?fields=a,b%2B&format=raw&generation=" + generation + "&key=k&table=keys",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// The shares of all ranks, contiguous or scattered, contain each sample of the global batch once.
func TestShare_CoversTheBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world := rapid.Uint64Range(1, 9).Draw(t, "world")
		b := Batch{Plan: Plan{
			Samples: rapid.Uint64Range(1, 60).Draw(t, "samples"), BatchSize: rapid.Uint64Range(1, 20).Draw(t, "size"), Tail: shuffle.Short,
			WorldSize: world, Homes: world, Balance: rapid.SampledFrom([]string{balanceSamples, costBytes}).Draw(t, "balance"),
		}}
		if b.Balance == balanceSamples && rapid.Bool().Draw(t, "locality") {
			b.Sharing = shuffle.Locality
		}
		b.Number = rapid.Uint64Range(0, b.Batches()-1).Draw(t, "number")
		whole := b.Batching().Share(b.Number, 0, 1)
		scattered := b.Balance == costBytes || world > 1 && b.Sharing == shuffle.Locality
		if b.Scattered() != scattered {
			t.Fatalf("%+v: got scattered %t", b, b.Scattered())
		}
		var sum, least, most uint64
		least = 1 << 62
		for b.Rank = range world {
			share, positions := b.Share()
			if scattered && positions != whole || !scattered && positions != share {
				t.Fatalf("%+v: got positions %+v, the whole batch is %+v", b, positions, whole)
			}
			if !scattered && share.Count > 0 && share.First != whole.First+sum {
				t.Fatalf("%+v: got %+v, want it to begin at %d", b, share, whole.First+sum)
			}
			if b.Balances() { // the samples of a share are known only after the batch is divided
				if share.Count != whole.Count {
					t.Fatalf("%+v: got %d samples, want the bound %d", b, share.Count, whole.Count)
				}
				continue
			}
			if even := b.Batching().Share(b.Number, b.Rank, world); share.Count != even.Count {
				t.Fatalf("%+v: got %d samples, want %d, as of a contiguous share", b, share.Count, even.Count)
			}
			sum, least, most = sum+share.Count, min(least, share.Count), max(most, share.Count)
		}
		if !b.Balances() && (sum != whole.Count || most > least+1) {
			t.Fatalf("%+v: the shares have %d samples, %d to %d each, want %d", b, sum, least, most, whole.Count)
		}
	})
	at := Batch{Plan: Plan{Samples: 9, BatchSize: 2, WorldSize: 4, Rank: 3}, At: []uint64{4, 4, 8}}
	if share, positions := at.Share(); share != positions || share.Count != 3 || share.First != 0 {
		t.Errorf("three positions: got %+v and %+v, want a share of three", share, positions)
	}
}

func TestCheckEnd(t *testing.T) {
	b := Batch{Plan: Plan{Samples: 33, BatchSize: 16, Tail: shuffle.Short, WorldSize: 1}}
	for number, fits := range map[uint64]bool{0: true, 2: true, 3: false, 1<<64 - 1: false} {
		b.Number = number
		err := b.CheckEnd()
		if fits {
			if err != nil {
				t.Errorf("batch %d: got %v", number, err)
			}
			continue
		}
		var r *Refusal
		if !errors.As(err, &r) || r.Kind != EndOfEpoch || r.Batches == nil || *r.Batches != 3 || r.Detail != "the epoch has 3 batches, numbered from 0" {
			t.Errorf("batch %d: got %+v, want the end of the epoch", number, err)
		}
	}
	b.Number, b.Tail = 2, shuffle.Drop
	if err := b.CheckEnd(); err == nil {
		t.Error("the batch that tail=drop leaves out is accepted")
	}
	b.Number, b.At = 0, []uint64{0, 32}
	if err := b.CheckEnd(); err != nil || b.Batches() != 1 {
		t.Errorf("positions of the epoch: got %v, and %d batches", err, b.Batches())
	}
	b.At = []uint64{0, 33, 34}
	if got, want := refused(t, b.CheckEnd()), "at: 33 is past the end: the epoch has 33 samples, at positions from 0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDecodeSamples_Refuses(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{"seed=1", "at: missing: must list the positions of samples, such as at=3,17,99"},
		{"at=", "at: empty"},
		{"at=1,,2", "at: empty"},
		{"at=1,x,y", "at: must be an unsigned decimal number, with digits only"},
		{"at=18446744073709551616", "at: must be below 2^64"},
		{"at=1" + strings.Repeat(",1", 1024), "at: more than 1024 positions"},
		{"at=1&rank=0", "rank: unknown parameter"},
		{"at=1&at=2", "at: given more than once"},
	} {
		q := ParseQuery(c.raw, SamplesNames()...)
		if b := DecodeSamples(q, photos(), "0"); b.At != nil && strings.HasPrefix(c.want, "at") && !strings.Contains(c.want, "more than once") {
			t.Errorf("%.50s: got positions %v", c.raw, b.At)
		}
		if got := refused(t, photos().Check(q)); got != c.want {
			t.Errorf("%.50s: got %q, want %q", c.raw, got, c.want)
		}
	}
	q := ParseQuery("at=0,7%2C7%2c18446744073709551615"+strings.Repeat(",1", 1020), SamplesNames()...)
	if b := DecodeSamples(q, photos(), "0"); q.Err() != nil || len(b.At) != 1024 || b.At[2] != 7 || b.At[3] != 1<<64-1 {
		t.Errorf("got %d positions, %v, want all 1024", len(b.At), q.Err())
	}
}

func TestDecodeSample(t *testing.T) {
	for _, c := range []struct{ raw, key, shard, want string }{
		{"key=a%26b+c&shard=s%2F1", "a&b c", "s/1", "accepted"},
		{"key=a", "a", "", "accepted"},
		{"shard=s", "", "s", "key: missing"},
		{"key=&shard=", "", "", "key: empty; shard: empty"},
		{"key=%zz", "", "", "key: invalid URL escape"},
		{"key=a&shard=%", "a", "", "shard: invalid URL escape"},
	} {
		q := ParseQuery(c.raw, "key", "shard")
		s := DecodeSample(q, photos())
		if got := refused(t, photos().Check(q)); got != c.want || s.Key != c.key || s.Shard != c.shard || s.Generation != generation {
			t.Errorf("%s: got %+v, %q, want key %q, shard %q, %q", c.raw, s, got, c.key, c.shard, c.want)
		}
	}
}

func TestQuery_Fix(t *testing.T) {
	for raw, want := range map[string]string{"": "accepted", "rank=3": "accepted", "rank=4": "rank: must be 3 here"} {
		q := ParseQuery(raw, "rank")
		q.Fix("rank", "3")
		if got := refused(t, q.Err()); got != want || got == "accepted" && q.Value("rank") != "3" {
			t.Errorf("%s: got %q and value %s, want %q", raw, got, q.Value("rank"), want)
		}
	}
}

// Negotiate selects the form that an Accept header prefers, and among equal ones the dataset's own
// form.
func TestNegotiate(t *testing.T) {
	d := photos()
	for _, c := range []struct{ raw, accept, want string }{
		{"", "", "tar"},
		{"", " ,\t", "tar"},
		{"", "*/*", "tar"},
		{"", "application/*", "tar"},
		{"", "text/html", "refused"},
		{"", "application/json", "json"},
		{"", "APPLICATION/JSON", "json"},
		{"", "application/x-tar;q=0.5, application/json", "json"},
		{"", "application/x-tar;q=0.5, application/json;q=0.5", "tar"},
		{"", "application/x-tar;q=0, */*;q=0.1", "raw"},
		{"", "*/*;q=1, application/x-tar;q=0, application/octet-stream;q=0", "json"},
		{"", "*/*;q=0", "refused"},
		{"", "application/raw", "raw"},
		{"", "application/raw;q=0", "refused"},
		{"", "application/json;q=2", "json"},
		{"", "application/json;q=x", "json"},
		{"", "application/json;q=2, application/x-tar", "tar"}, // an invalid quality counts as 1
		{"", "application/json;q=-1, application/x-tar;q=0.5", "json"},
		{"", "application/json;level=1;Q=0", "refused"},
		{"", "application/x-tar;q=0.9, application/raw;q=1", "raw"},
		{"", "text/html, application/*;q=0.2", "tar"},
		{"fields=a", "application/octet-stream", "refused"},
		{"fields=a", "application/octet-stream, application/json;q=0.1", "json"},
		{"format=json", "text/html", "json"},
		{"format=raw&table=keys", "text/html", "raw"},
	} {
		b, err := decode(d, c.raw, "0", "0")
		if err != nil {
			t.Fatal(err)
		}
		err = b.View.Negotiate(c.accept, d.Forms)
		got := b.View.Form.Name
		if err != nil {
			var r *Refusal
			if got = "refused"; !errors.As(err, &r) || r.Kind != NotAcceptable || !strings.HasPrefix(r.Detail, "available as application/x-tar, application/") {
				t.Errorf("%s, Accept: %s: got %v", c.raw, c.accept, err)
			}
		}
		if got != c.want {
			t.Errorf("%s, Accept: %s: got %s, want %s", c.raw, c.accept, got, c.want)
		}
	}
}

func TestCheckSharing_RefusesMoreHomesThanLanes(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{"world_size=4", "accepted"},
		{"world_size=8&shuffle=full", "accepted"},
		{"world_size=8", "accepted"},
		{"world_size=2&share=locality", "accepted"},
		{"world_size=8&share=locality", "share: 8 homes for 4 lanes: homes must be at most 4"},
		{"world_size=8&share=locality&homes=6", "homes: 6 homes for 4 lanes: homes must be at most 4"},
	} {
		b, err := decode(photos(), c.raw, "0", "0")
		if err != nil {
			t.Fatal(err)
		}
		plan, err := shuffle.NewPlan(b.Params, []uint64{0, 10, 20, 30})
		if err != nil {
			t.Fatal(err)
		}
		if got := refused(t, b.CheckSharing(plan)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.raw, got, c.want)
		}
	}
}

func TestRefusal(t *testing.T) {
	cause := io.ErrUnexpectedEOF
	r := Refuse(TooLarge, "%d bytes", 7).Because(cause).Above(5)
	if r.Kind != TooLarge || r.Detail != "7 bytes" || *r.Limit != 5 || r.Error() != cause.Error() || !errors.Is(r, cause) {
		t.Errorf("got %+v", r)
	}
	if r := Refuse(NotFound, "gone"); r.Error() != "gone" || r.Unwrap() != nil {
		t.Errorf("got %+v", r)
	}
	if err := RefuseParameter("at", "%d too many", 3); refused(t, err) != "at: 3 too many" {
		t.Errorf("got %v", err)
	}
}
