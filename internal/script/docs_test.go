package script

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const reference = "../../docs/roceprobe.md"

// The reference is complete: every word of the language stands in it, as code.
func TestTheReferenceHasEveryWord(t *testing.T) {
	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	inline := strings.ReplaceAll(string(text), "```", "")
	code := strings.Join(regexp.MustCompile("`[^`\n]+`").FindAllString(inline, -1), "\n")
	var words []string
	words = slices.AppendSeq(words, maps.Keys(statements))
	words = slices.AppendSeq(words, maps.Keys(constants))
	words = slices.AppendSeq(words, maps.Keys(functions))
	words = slices.AppendSeq(words, maps.Keys(numbers))
	words = slices.AppendSeq(words, maps.Keys(naks))
	words = slices.AppendSeq(words, maps.Keys(operations))
	words = slices.AppendSeq(words, maps.Keys(requestValues))
	words = slices.AppendSeq(words, maps.Keys(requestFlags))
	words = slices.AppendSeq(words, maps.Keys(regionRights))
	for _, f := range fields {
		words = append(words, f.name)
	}
	for name := range opcodes {
		_, operation, _ := strings.Cut(name, " ")
		if operation = strings.TrimPrefix(operation, "WRITE_"); operation != "" && !strings.HasPrefix(name, "UC") {
			words = append(words, strings.TrimPrefix(operation, "SEND_"))
		}
	}
	words = append(words, "target", "end", "repeat", "local", "peer", "type", "state", "access", "mr", "other_pd", "mw", "other_qp", "uc", "ud", "group",
		"data", "fill", "at", "len", "padding", "tail", "cut", "icrc", "from", "to", "after", "within")
	for _, w := range words {
		if !regexp.MustCompile(`(^|[^a-z])` + regexp.QuoteMeta(w) + `([^a-zA-Z]|$)`).MatchString(code) {
			t.Errorf("%s does not say what %s is", reference, w)
		}
	}
}

// Its examples are scripts.
func TestTheExamplesOfTheReferenceAreScripts(t *testing.T) {
	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	scripts := 0
	for i, block := range strings.Split(string(text), "```") {
		if i%2 == 0 || !strings.HasPrefix(block, "\n") || strings.HasPrefix(block, "\ngantry: ") {
			continue // text, another language, what the command says
		}
		scripts++
		if _, err := Parse("example", block); err != nil {
			t.Errorf("%v in:\n%s", err, block)
		}
	}
	if scripts < 3 {
		t.Errorf("found %d scripts in the reference", scripts)
	}
}
