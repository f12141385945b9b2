package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	fscram "github.com/twmb/franz-go/pkg/sasl/scram"
	"github.com/xdg-go/scram"
)

// Security is how a client protects its connections and says who it is; empty: neither.
type Security struct {
	CA          string `json:"ca"`          // PEM of whom it trusts; empty: no TLS
	Certificate string `json:"certificate"` // PEM of its own certificate and key
	Mechanism   string `json:"mechanism"`   // of SASL
	User        string `json:"user"`
	Password    string `json:"password"`
	Token       string `json:"token"` // of OAUTHBEARER
}

// tls gives nil where there is none.
func (s Security) tls() (*tls.Config, error) {
	if s.CA == "" {
		return nil, nil
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM([]byte(s.CA)) {
		return nil, errors.New("no certificate to trust")
	}
	config := &tls.Config{RootCAs: trusted}
	if s.Certificate != "" {
		own, err := tls.X509KeyPair([]byte(s.Certificate), []byte(s.Certificate))
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

func (s Security) ofFranz() ([]kgo.Opt, error) {
	var options []kgo.Opt
	config, err := s.tls()
	if config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	if s.Mechanism != "" {
		mechanisms := map[string]sasl.Mechanism{
			"PLAIN":         plain.Auth{User: s.User, Pass: s.Password}.AsMechanism(),
			"SCRAM-SHA-256": fscram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism(),
			"SCRAM-SHA-512": fscram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism(),
			"OAUTHBEARER":   oauth.Auth{Token: s.Token}.AsMechanism(),
		}
		options = append(options, kgo.SASL(mechanisms[s.Mechanism]))
	}
	return options, err
}

func (s Security) ofSarama(config *sarama.Config) error {
	secured, err := s.tls()
	config.Net.TLS.Enable, config.Net.TLS.Config = secured != nil, secured
	if s.Mechanism == "" {
		return err
	}
	login := &config.Net.SASL
	login.Enable, login.User, login.Password = true, s.User, s.Password
	login.Mechanism = sarama.SASLMechanism(s.Mechanism)
	switch s.Mechanism {
	case sarama.SASLTypePlaintext:
	case sarama.SASLTypeOAuth:
		login.TokenProvider = bearer(s.Token)
	case sarama.SASLTypeSCRAMSHA256:
		login.SCRAMClientGeneratorFunc = conversing(scram.SHA256)
	case sarama.SASLTypeSCRAMSHA512:
		login.SCRAMClientGeneratorFunc = conversing(scram.SHA512)
	default:
		return fmt.Errorf("no mechanism %q", s.Mechanism)
	}
	return err
}

// bearer always has the same token.
type bearer string

func (b bearer) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(b)}, nil
}

// conversation is SCRAM for sarama, which leaves it to its users: xdg-go/scram, as most have it.
type conversation struct {
	*scram.ClientConversation
	hash scram.HashGeneratorFcn
}

func conversing(hash scram.HashGeneratorFcn) func() sarama.SCRAMClient {
	return func() sarama.SCRAMClient { return &conversation{hash: hash} }
}

func (c *conversation) Begin(user, password, authorization string) error {
	client, err := c.hash.NewClient(user, password, authorization)
	if err == nil {
		c.ClientConversation = client.NewConversation()
	}
	return err
}
