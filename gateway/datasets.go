package gateway

import (
	"encoding/json"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/gateway/plans"
)

// datasetLinks are the URLs of a dataset.
type datasetLinks struct {
	Self  string `json:"self"`
	Epoch string `json:"epoch"`
	Batch string `json:"batch"`
	Index string `json:"index"`
}

// datasetInfo describes a dataset.
type datasetInfo struct {
	Name        string              `json:"name"`
	Default     bool                `json:"default"`
	Generation  string              `json:"generation"`
	Format      string              `json:"format"`
	ContentType string              `json:"content_type"`
	Forms       []formInfo          `json:"forms"`
	Constants   json.RawMessage     `json:"constants,omitempty"`
	Fields      []format.Field      `json:"fields,omitempty"`        // content of the parts, if known
	OtherParts  bool                `json:"other_parts,omitempty"`   // samples have parts that Fields does not list
	ClassCounts []uint64            `json:"class_samples,omitempty"` // samples per class of class folders, if the index has the counts
	Samples     uint64              `json:"samples"`
	Chunks      int                 `json:"chunks"`
	Shards      int                 `json:"shards"`
	Bytes       int64               `json:"bytes"`
	MaxChunk    int64               `json:"max_chunk"`
	MaxSample   int64               `json:"max_sample"`
	Plan        chunkindex.Defaults `json:"default_plan"`
	Sources     []plans.SourceInfo  `json:"sources,omitempty"` // sources of a mixture
	Generations []generationInfo    `json:"generations"`       // open generations, starting with the default one
	Follows     bool                `json:"follows"`           // the gateway loads new generations by itself
	Cluster     bool                `json:"cluster"`           // the gateway is a member of a cluster
	Links       datasetLinks        `json:"links"`
}

// generationInfo describes an open generation.
type generationInfo struct {
	Generation string `json:"generation"`
	Samples    uint64 `json:"samples"`
}

// formInfo describes a form of batches.
type formInfo struct {
	Name        string `json:"name"`
	ContentType string `json:"content_type"`
	Fields      bool   `json:"fields"`
}

func (g *Gateway) info(d *dataset) datasetInfo {
	x, self := d.Index, "/v1/datasets/"+d.Name()
	fields := x.Fields()
	forms := make([]formInfo, len(d.Address.Forms))
	for i, f := range d.Address.Forms {
		forms[i] = formInfo{f.Name, f.ContentType, f.Fields}
	}
	var generations []generationInfo
	for _, open := range g.datasets.Generations(d.Name()) {
		generations = append(generations, generationInfo{open.Index.Generation(), open.Index.Samples()})
	}
	if address.IsMixture(d.Name()) {
		generations = []generationInfo{{x.Generation(), x.Samples()}}
	}
	return datasetInfo{
		Name: d.Name(), Default: d.Name() == g.standard(), Generation: x.Generation(), Format: x.Format(),
		ContentType: d.Address.Forms[0].ContentType, Forms: forms, Constants: x.Constants(), Fields: fields, OtherParts: len(fields) > 0 && x.OtherParts(),
		ClassCounts: x.ClassSamples(), Samples: x.Samples(), Chunks: x.Chunks(), Shards: x.Shards(),
		Bytes: x.Bytes(), MaxChunk: x.MaxChunk(), MaxSample: x.MaxSample(), Plan: x.Defaults(), Sources: d.Sources(), Generations: generations, Follows: g.cfg.Follows, Cluster: g.cfg.Cluster != nil,
		Links: datasetLinks{Self: self, Epoch: self + "/epochs/0", Batch: self + "/epochs/0/batches/0", Index: self + "/index"},
	}
}

func (g *Gateway) getDatasets(x *exchange) error {
	if err := noQuery(x); err != nil {
		return err
	}
	list := struct {
		Datasets []datasetInfo `json:"datasets"`
	}{[]datasetInfo{}}
	for _, d := range g.datasets.All() {
		if g.may(x.principal, auth.Read, d.Name()) {
			list.Datasets = append(list.Datasets, g.info(d))
		}
	}
	if len(list.Datasets) == 0 && x.principal.Anonymous() {
		x.refused = true
		return unauthenticated("", nil)
	}
	return sendJSON(x, list)
}

func (g *Gateway) getDataset(x *exchange) error {
	d := x.dataset
	if err := noQuery(x); err != nil {
		return err
	}
	return sendJSON(x, g.info(d))
}
