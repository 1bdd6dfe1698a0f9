package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The files of the built-in CA in its directory.
const (
	RootFile    = "root-cert.pem" // the root; others behind it are trusted, too
	RootKeyFile = "root-key.pem"  // for its owner alone
)

// The files that a certificate is written to, beside RootFile.
const (
	ChainFile = "cert-chain.pem"
	KeyFile   = "key.pem"
)

const keyBlock = "PRIVATE KEY"

// Save writes a new CA to a directory, which it makes unless it is there. It never
// replaces a file. The key comes last: without it there is no CA.
func (ca *CA) Save(dir string) error {
	key, err := keyPEM(ca.key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the authority: %w", err)
	}
	if err := checkDir(dir); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, RootKeyFile)); err == nil {
		return fmt.Errorf("%s has an authority already; a new root would cut off all who trust the old one: choose another directory, or remove both files yourself", dir)
	}
	if err := create(dir, RootFile, ca.roots.AppendPEM(nil), 0o644); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w; without %s it is left over from an init that was cut short, or the key was taken away: remove it if nobody trusts it", err, RootKeyFile)
		}
		return err
	}
	return create(dir, RootKeyFile, key, 0o600)
}

// LoadCA reads a CA from its directory. A key that others may read is refused.
func LoadCA(dir string) (*CA, error) {
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	key, err := readKey(filepath.Join(dir, RootKeyFile))
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, RootFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the root certificate: %w", err)
	}
	roots, err := ParseBundle(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, root := range roots.roots {
		if key.PublicKey.Equal(root.PublicKey) {
			domain, err := domainOf(root)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			return &CA{root: root, key: key, roots: roots, domain: domain}, nil
		}
	}
	return nil, fmt.Errorf("%s has no certificate of the key in %s; they are of different authorities", path, RootKeyFile)
}

// Save writes the chain, the key and the roots to a directory, for programs that
// read them from files. It never replaces a file.
func (c *Certificate) Save(dir string) error {
	chain, key, err := c.PEM()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory for the certificate: %w", err)
	}
	for _, name := range []string{KeyFile, ChainFile, RootFile} { // all or none
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("%s is there already and is not replaced; choose another directory", filepath.Join(dir, name))
		}
	}
	return errors.Join(
		create(dir, KeyFile, key, 0o600),
		create(dir, ChainFile, chain, 0o644),
		create(dir, RootFile, c.roots.AppendPEM(nil), 0o644),
	)
}

// checkDir refuses a directory in which others could put a root of theirs.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("directory of the authority: %w; make one with `sluice ca init`", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("%s: its mode is %#o, so others may replace the root; take the right to write from them (chmod go-w)", dir, mode)
	}
	return nil
}

// readKey reads a P-256 key that is its owner's alone.
func readKey(path string) (*ecdsa.PrivateKey, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: the key has to be a file, not a %v", path, info.Mode().Type())
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%s: its mode is %#o, so others may have read the key; it has to be 0600. If they could, make a new authority", path, mode)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != keyBlock || strings.TrimSpace(string(rest)) != "" {
		return nil, fmt.Errorf("%s: not one PEM block of type %q", path, keyBlock)
	}
	any, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	key, ok := any.(*ecdsa.PrivateKey)
	if !ok || key.Curve.Params().BitSize != 256 {
		return nil, fmt.Errorf("%s: not an ECDSA key on P-256", path)
	}
	return key, nil
}

// keyPEM writes a key as PKCS #8.
func keyPEM(key crypto.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("write the key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

// create makes a file that was not there, whole or not at all: under another name
// first, on the disk, and then by a link, which does not replace.
func create(dir, name string, content []byte, mode fs.FileMode) (err error) {
	path := filepath.Join(dir, name)
	temp := filepath.Join(dir, "."+name+"."+rand.Text())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, os.Remove(temp)) }()
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Link(temp, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncDir(dir)
}

// syncDir brings the names in a directory to the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
