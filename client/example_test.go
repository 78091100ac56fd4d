package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/millrace-data/millrace/client"
)

// Batches reads from a batch on.
func ExampleClient_Batches() {
	gw := httptest.NewServer(&fake{batches: 5, generation: "g"})
	defer gw.Close()

	c, err := client.New(client.Config{Gateways: []string{gw.URL}})
	if err != nil {
		log.Fatal(err)
	}
	for b, err := range c.Batches(context.Background(), client.Options{Epoch: 3, From: 2}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("epoch %d batch %d of %d: %d samples\n", b.Epoch, b.Number, b.Batches, b.Samples())
	}
	// Output:
	// epoch 3 batch 2 of 5: 2 samples
	// epoch 3 batch 3 of 5: 2 samples
	// epoch 3 batch 4 of 5: 2 samples
}

// A run saves a state after a batch, and resumes from it: with other ranks, batch sizes, frameworks.
func ExampleClient_Resume() {
	routes := http.NewServeMux()
	routes.Handle("/", &fake{batches: 3, generation: "c2745ef8f32dd0e2131a682536b8d09e47506a05a38e4fe6692cbbaee7010bae"})
	routes.HandleFunc("/v1/datasets/photos/epochs/0", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"batches":3,"samples":6,"plan_digests":[{"position":0,"digest":"4298dff41f247fffb576ccde58a40809"}],`+
			`"parameters":{"generation":"c2745ef8f32dd0e2131a682536b8d09e47506a05a38e4fe6692cbbaee7010bae","batch_size":2,"tail":"short"}}`)
	})
	gw := httptest.NewServer(routes)
	defer gw.Close()

	c, err := client.New(client.Config{Gateways: []string{gw.URL}, Dataset: "photos"})
	if err != nil {
		log.Fatal(err)
	}
	checkpoint := `{"state":3,"generation":"c2745ef8f32dd0e2131a682536b8d09e","plan":"4298dff41f247fffb576ccde58a40809","epoch":0,"position":2}`
	var state client.State
	if err := json.Unmarshal([]byte(checkpoint), &state); err != nil {
		log.Fatal(err)
	}
	opt, err := c.Resume(context.Background(), client.Options{}, state)
	if err != nil {
		log.Fatal(err)
	}
	for b, err := range c.Batches(context.Background(), opt) {
		if err != nil {
			log.Fatal(err)
		}
		state = opt.After(b)
		fmt.Printf("batch %d of epoch %d; continue at position %d of epoch %d\n", b.Number, b.Epoch, state.Position, state.Epoch)
	}
	// Output:
	// batch 1 of epoch 0; continue at position 4 of epoch 0
	// batch 2 of epoch 0; continue at position 0 of epoch 1
}

// ReadEpoch reads an epoch, stores it in files if Dir is set, and returns the proof.
func ExampleClient_ReadEpoch() {
	routes := http.NewServeMux()
	routes.Handle("/", &fake{batches: 5, generation: "g"})
	routes.HandleFunc("/v1/datasets", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"datasets":[{"name":"photos","default":true}]}`)
	})
	routes.HandleFunc("/v1/datasets/photos/epochs/3", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"batches":5,"samples":10,"parameters":{"generation":"g","batch_size":2,"tail":"short"}}`)
	})
	gw := httptest.NewServer(routes)
	defer gw.Close()

	c, err := client.New(client.Config{Gateways: []string{gw.URL}})
	if err != nil {
		log.Fatal(err)
	}
	r, err := c.ReadEpoch(context.Background(), client.Epoch{Options: client.Options{Epoch: 3}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("epoch %d of %s: %d batches; whole: %v, each %s once\n", r.Epoch, r.Dataset, r.Batches, r.Proof.Whole, r.Proof.Of)
	// Output: epoch 3 of photos: 5 batches; whole: true, each sample once
}

// Ranks whose shares differ in size weight their losses. The mean of these weighted losses over all
// ranks is the mean loss of the global batch, and so is its gradient.
func ExampleBatch_loss() {
	gw := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Millrace-Batch-Samples", "5") // another rank has the other three
		(&fake{batches: 5, generation: "g"}).ServeHTTP(w, r)
	}))
	defer gw.Close()

	c, err := client.New(client.Config{Gateways: []string{gw.URL}})
	if err != nil {
		log.Fatal(err)
	}
	opt := client.Options{WorldSize: 2, Rank: 0, Balance: "bytes"}
	b, err := c.Batch(context.Background(), opt, 2)
	if err != nil {
		log.Fatal(err)
	}
	losses := []float64{0.7, 0.3} // of the samples of the rank's share
	sum := 0.0
	for i := range b.Samples() {
		sum += losses[i]
	}
	fmt.Printf("%.2f\n", sum*float64(opt.WorldSize)/float64(b.BatchSamples))
	// Output: 0.40
}
