// Package comch is a message channel between the two sides of one card, in two
// processes of one machine.
package comch
