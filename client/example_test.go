package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/millrace-data/millrace/client"
)

// A checkpoint is two integers: the epoch and the next batch.
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
