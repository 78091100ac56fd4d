package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/millrace-data/millrace/client"
)

// A checkpoint is two integers: the epoch and the batch to go on from.
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

// A ledger proves that an epoch delivered every sample exactly once.
func ExampleLedger() {
	gw := httptest.NewServer(&fake{batches: 5, generation: "g"})
	defer gw.Close()

	c, err := client.New(client.Config{Gateways: []string{gw.URL}})
	if err != nil {
		log.Fatal(err)
	}
	ledger := client.NewLedger(10)
	for b, err := range c.Batches(context.Background(), client.Options{Manifest: true}) {
		if err != nil {
			log.Fatal(err)
		}
		ledger.Add(b)
	}
	fmt.Println(ledger.Check())
	// Output: <nil>
}
