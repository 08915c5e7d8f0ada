// Package lint holds the rules of this repository as tests: which package may
// import which, how long files and functions may be, that everything exported
// is documented, that documents point at things that exist. It has no code of
// its own, and go test ./internal/lint checks the whole tree.
//
// A rule is here when a reader would otherwise have to remember it. Where an
// exception is right, it goes into the rule's table together with its reason.
package lint
