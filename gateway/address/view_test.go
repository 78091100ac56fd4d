package address

import (
	"errors"
	"strings"
	"testing"
)

// TestDecodeView_FieldsChooseAFormThatHasThem: without format=, fields= selects among the forms
// that can omit parts.
func TestDecodeView_FieldsChooseAFormThatHasThem(t *testing.T) {
	d := photos()
	d.Forms[0].Fields = false
	for raw, want := range map[string]string{"": "tar", "fields=cls": "json", "fields=cls&format=json": "json"} {
		b, err := decode(d, raw, "0", "0")
		if err != nil || b.View.Form.Name != want || b.View.Chosen != strings.Contains(raw, "format") {
			t.Errorf("%s: got form %s, chosen %t, %v, want %s", raw, b.View.Form.Name, b.View.Chosen, err, want)
		}
		q := ParseQuery(raw, "fields", "format")
		if v := DecodeView(q, d); q.Err() != nil || v.Form.Name != want {
			t.Errorf("%s without a plan: got form %s, %v, want %s", raw, v.Form.Name, q.Err(), want)
		}
	}
	_, err := decode(d, "fields=cls&format=tar", "0", "0")
	if got, want := refused(t, err), "fields: has no meaning for format tar"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestNegotiate_ListsEachTypeOnce: a refusal lists the available content types in order, and does
// not change the form.
func TestNegotiate_ListsEachTypeOnce(t *testing.T) {
	d := photos()
	d.Forms = append(d.Forms, Form{Name: "lines", ContentType: "application/json", Fields: true})
	for raw, want := range map[string]string{
		"":         "available as application/x-tar, application/octet-stream, application/json",
		"fields=a": "available as application/x-tar, application/json",
	} {
		b, err := decode(d, raw, "0", "0")
		if err != nil {
			t.Fatal(err)
		}
		err = b.View.Negotiate("text/html", d.Forms)
		var r *Refusal
		if !errors.As(err, &r) || r.Kind != NotAcceptable || r.Detail != want || b.View.Form.Name != "tar" {
			t.Errorf("%s: got %v and form %s, want %s", raw, err, b.View.Form.Name, want)
		}
	}
}

// TestNames_TakesNoRanges: only the content type itself, with a positive quality, counts.
func TestNames_TakesNoRanges(t *testing.T) {
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "text/*": false, "text/csv": true, "TEXT/CSV ; q=0.1": true, "text/csv;q=0": false, "text/csv;q=0.0, */*": false,
		"text/html,  text/csv": true, "text/csvx": false, "text/csv;charset=utf-8;q=0": false, "text/csv;q=0, text/csv": true,
	} {
		if got := Names(accept, "text/csv"); got != want {
			t.Errorf("%q: got %t, want %t", accept, got, want)
		}
	}
}

// TestParseURL_RefusedAddressesNameNoBatch: ParseURL returns no batch for an invalid path.
func TestParseURL_RefusedAddressesNameNoBatch(t *testing.T) {
	for _, address := range []string{"", "x", "/v1/datasets/texts/epochs/3/batches/5?generation=" + generation, "/v1/datasets/photos/epochs/3?generation=" + digest} {
		if b, hasBatch, _ := ParseURL(photos(), false, address, &Query{}); hasBatch || b.Number != 0 {
			t.Errorf("%q: got batch %d, %t, want none", address, b.Number, hasBatch)
		}
	}
}
