// Checks a log with Go's own transparency log (golang.org/x/mod/sumdb), a verifier that is not ours.
//
// usage: tlog CHECKPOINT VERIFIER_KEY JOURNAL PROOFS
//
// JOURNAL has a leaf a line. PROOFS is JSON: inclusion proofs (leaf number, size, hashes) and consistency proofs (older
// size and root, size, hashes). Exits with 0 where the signed head is that of the journal and all proofs hold, with 1
// where not, with 2 where the question could not be asked.
package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type inclusion struct {
	Index  int64
	Size   int64
	Root   string
	Hashes []string
}

type consistency struct {
	Old     int64
	OldRoot string
	Size    int64
	Root    string
	Hashes  []string
}

type proofs struct {
	Inclusion   []inclusion
	Consistency []consistency
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: tlog CHECKPOINT VERIFIER_KEY JOURNAL PROOFS")
		os.Exit(2)
	}
	var files [3][]byte
	for i, at := range []int{1, 3, 4} {
		bytes, err := os.ReadFile(os.Args[at])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		files[i] = bytes
	}
	if err := check(files[0], os.Args[2], files[1], files[2]); err != nil {
		fmt.Fprintln(os.Stderr, "refused:", err)
		os.Exit(1)
	}
}

// Stored hashes of a tree, in the order in which tlog numbers them.
type stored []tlog.Hash

func (s stored) ReadHashes(at []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(at))
	for i, at := range at {
		if at < 0 || at >= int64(len(s)) {
			return nil, errors.New("no such hash")
		}
		out[i] = s[at]
	}
	return out, nil
}

func check(checkpoint []byte, key string, journal, list []byte) error {
	verifier, err := note.NewVerifier(key)
	if err != nil {
		return err
	}
	opened, err := note.Open(checkpoint, note.VerifierList(verifier))
	if err != nil {
		return err
	}
	lines := strings.Split(opened.Text, "\n")
	if len(lines) != 4 || lines[3] != "" || lines[0] != verifier.Name() {
		return errors.New("the note is no checkpoint of this log")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(raw) != tlog.HashSize {
		return errors.New("the root is no hash")
	}
	var root tlog.Hash
	copy(root[:], raw)

	var hashes stored
	leaves := strings.Split(strings.TrimSuffix(string(journal), "\n"), "\n")
	for i, leaf := range leaves {
		more, err := tlog.StoredHashes(int64(i), []byte(leaf), hashes)
		if err != nil {
			return err
		}
		hashes = append(hashes, more...)
	}
	computed, err := tlog.TreeHash(int64(len(leaves)), hashes)
	if err != nil {
		return err
	}
	if size != int64(len(leaves)) || computed != root {
		return fmt.Errorf("the journal's head is %d %v, the signed one %d %v", len(leaves), computed, size, root)
	}

	var all proofs
	if err := json.Unmarshal(list, &all); err != nil {
		return err
	}
	for _, proof := range all.Inclusion {
		root, way, err := decode(proof.Root, proof.Hashes)
		if err != nil {
			return err
		}
		leaf := tlog.RecordHash([]byte(leaves[proof.Index]))
		if err := tlog.CheckRecord(way, proof.Size, root, proof.Index, leaf); err != nil {
			return fmt.Errorf("inclusion of %d in %d: %w", proof.Index, proof.Size, err)
		}
	}
	for _, proof := range all.Consistency {
		root, way, err := decode(proof.Root, proof.Hashes)
		if err != nil {
			return err
		}
		old, err := hash(proof.OldRoot)
		if err != nil {
			return err
		}
		if err := tlog.CheckTree(way, proof.Size, root, proof.Old, old); err != nil {
			return fmt.Errorf("consistency of %d with %d: %w", proof.Old, proof.Size, err)
		}
	}
	return nil
}

func hash(text string) (tlog.Hash, error) {
	var out tlog.Hash
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != tlog.HashSize {
		return out, errors.New("no hash")
	}
	copy(out[:], raw)
	return out, nil
}

func decode(root string, hashes []string) (tlog.Hash, []tlog.Hash, error) {
	first, err := hash(root)
	if err != nil {
		return first, nil, err
	}
	way := make([]tlog.Hash, len(hashes))
	for i, text := range hashes {
		if way[i], err = hash(text); err != nil {
			return first, nil, err
		}
	}
	return first, way, nil
}
