--
-- PostgreSQL database dump
--

\restrict j8tX7ZbXAX2J4dHf0sTlWH9C1h8S45Wusl5oqxu3ztkc2I95KthpCBhc7IycqaJ

-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: changes; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.changes
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: deletions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.deletions (
    sequence bigint NOT NULL,
    id uuid NOT NULL,
    deleted_ms bigint NOT NULL
);


--
-- Name: documents; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.documents (
    kind text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    body text NOT NULL,
    updated_ms bigint NOT NULL
);


--
-- Name: erasures; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.erasures (
    number bigint NOT NULL,
    raw_segment text NOT NULL COLLATE pg_catalog."C",
    raw_offset bigint NOT NULL,
    raw_bytes bigint NOT NULL,
    raw_digest bytea NOT NULL
);


--
-- Name: erasures_number_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.erasures ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.erasures_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: pathbench_schema; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.pathbench_schema (
    version integer NOT NULL
);


--
-- Name: results; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.results (
    sequence bigint NOT NULL,
    id uuid NOT NULL,
    digest bytea NOT NULL,
    agent uuid NOT NULL,
    consent smallint NOT NULL,
    deletion bytea NOT NULL,
    received_ms bigint NOT NULL,
    raw_segment text COLLATE pg_catalog."C",
    raw_offset bigint,
    raw_bytes bigint,
    raw_digest bytea,
    facts bytea NOT NULL,
    summary bytea NOT NULL
)
PARTITION BY RANGE (id);


--
-- Name: results_2026_11; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.results_2026_11 (
    sequence bigint NOT NULL,
    id uuid NOT NULL,
    digest bytea NOT NULL,
    agent uuid NOT NULL,
    consent smallint NOT NULL,
    deletion bytea NOT NULL,
    received_ms bigint NOT NULL,
    raw_segment text COLLATE pg_catalog."C",
    raw_offset bigint,
    raw_bytes bigint,
    raw_digest bytea,
    facts bytea NOT NULL,
    summary bytea NOT NULL
);


--
-- Name: results_2026_12; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.results_2026_12 (
    sequence bigint NOT NULL,
    id uuid NOT NULL,
    digest bytea NOT NULL,
    agent uuid NOT NULL,
    consent smallint NOT NULL,
    deletion bytea NOT NULL,
    received_ms bigint NOT NULL,
    raw_segment text COLLATE pg_catalog."C",
    raw_offset bigint,
    raw_bytes bigint,
    raw_digest bytea,
    facts bytea NOT NULL,
    summary bytea NOT NULL
);


--
-- Name: results_default; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.results_default (
    sequence bigint NOT NULL,
    id uuid NOT NULL,
    digest bytea NOT NULL,
    agent uuid NOT NULL,
    consent smallint NOT NULL,
    deletion bytea NOT NULL,
    received_ms bigint NOT NULL,
    raw_segment text COLLATE pg_catalog."C",
    raw_offset bigint,
    raw_bytes bigint,
    raw_digest bytea,
    facts bytea NOT NULL,
    summary bytea NOT NULL
);


--
-- Name: results_2026_11; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.results ATTACH PARTITION public.results_2026_11 FOR VALUES FROM ('01a19467-e800-0000-0000-000000000000') TO ('01a22ee6-b000-0000-0000-000000000000');


--
-- Name: results_2026_12; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.results ATTACH PARTITION public.results_2026_12 FOR VALUES FROM ('01a22ee6-b000-0000-0000-000000000000') TO ('01a2ce8b-d400-0000-0000-000000000000');


--
-- Name: results_default; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.results ATTACH PARTITION public.results_default DEFAULT;


--
-- Data for Name: deletions; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.deletions VALUES (6, '01a21219-a400-7000-8000-000000000003', 1795600000000);


--
-- Data for Name: documents; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.documents VALUES ('experiment', 'k', '{}', 1795600000000);


--
-- Data for Name: erasures; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.erasures OVERRIDING SYSTEM VALUE VALUES (1, 'segment', 3, 10, '\x03e71c6d7dc6bd4e89ceaf32f6488ca0aa69b0de784b706cac5818d680e9d97f');


--
-- Data for Name: pathbench_schema; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.pathbench_schema VALUES (1);


--
-- Data for Name: results_2026_11; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.results_2026_11 VALUES (1, '01a21219-a400-7000-8000-000000000001', '\xa65e708bf319065a6e3e2635aae02596bc6cce2467fe91e66b168a07a661c66d', '00000000-0000-0000-0000-000000000007', 2, '\x3c469e9d6c5875d37a43f353d4f88e61fcf812c66eee3457465a40b0da4153e0', 1795600000000, 'segment', 1, 10, '\x03e71c6d7dc6bd4e89ceaf32f6488ca0aa69b0de784b706cac5818d680e9d97f', '\x676f6c64656e2031', '\x7b22636f6e74656e74223a22676f6c64656e2031227d');
INSERT INTO public.results_2026_11 VALUES (2, '01a21219-a400-7000-8000-000000000002', '\x0c5442af192dd6d3145e17f505473422cbf0c28755e06cec9d60456f283099ac', '00000000-0000-0000-0000-000000000007', 1, '\x3c469e9d6c5875d37a43f353d4f88e61fcf812c66eee3457465a40b0da4153e0', 1795600000000, NULL, NULL, NULL, NULL, '\x676f6c64656e2032', '\x7b22636f6e74656e74223a22676f6c64656e2032227d');
INSERT INTO public.results_2026_11 VALUES (4, '01a21219-a400-7000-8000-000000000004', '\xf4bb65ce671243325be1725a6e9a6884ffe13d9fb06acea1cd7cf9adaff23ca9', '00000000-0000-0000-0000-000000000007', 2, '\x3c469e9d6c5875d37a43f353d4f88e61fcf812c66eee3457465a40b0da4153e0', 1795600000000, NULL, NULL, NULL, NULL, '\x676f6c64656e2034', '\x7b22636f6e74656e74223a22676f6c64656e2034227d');
INSERT INTO public.results_2026_11 VALUES (5, '01a21219-a400-7000-8000-000000000005', '\x6a6511456fedb4f2e959b6e339d0f55fa28a7b5ea0718978a7ae63c938e04b3d', '00000000-0000-0000-0000-000000000007', 2, '\x3c469e9d6c5875d37a43f353d4f88e61fcf812c66eee3457465a40b0da4153e0', 1795600000000, 'segment', 5, 10, '\x03e71c6d7dc6bd4e89ceaf32f6488ca0aa69b0de784b706cac5818d680e9d97f', '\x676f6c64656e2035', '\x7b22636f6e74656e74223a22676f6c64656e2035227d');


--
-- Data for Name: results_2026_12; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: results_default; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Name: changes; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.changes', 6, true);


--
-- Name: erasures_number_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.erasures_number_seq', 1, true);


--
-- Name: deletions deletions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.deletions
    ADD CONSTRAINT deletions_pkey PRIMARY KEY (id);


--
-- Name: deletions deletions_sequence_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.deletions
    ADD CONSTRAINT deletions_sequence_key UNIQUE (sequence);


--
-- Name: documents documents_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.documents
    ADD CONSTRAINT documents_pkey PRIMARY KEY (kind, key);


--
-- Name: erasures erasures_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.erasures
    ADD CONSTRAINT erasures_pkey PRIMARY KEY (number);


--
-- Name: results results_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.results
    ADD CONSTRAINT results_pkey PRIMARY KEY (id);


--
-- Name: results_2026_11 results_2026_11_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.results_2026_11
    ADD CONSTRAINT results_2026_11_pkey PRIMARY KEY (id);


--
-- Name: results_2026_12 results_2026_12_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.results_2026_12
    ADD CONSTRAINT results_2026_12_pkey PRIMARY KEY (id);


--
-- Name: results_default results_default_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.results_default
    ADD CONSTRAINT results_default_pkey PRIMARY KEY (id);


--
-- Name: results_deletion; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX results_deletion ON ONLY public.results USING btree (deletion);


--
-- Name: results_2026_11_deletion_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX results_2026_11_deletion_idx ON public.results_2026_11 USING btree (deletion);


--
-- Name: results_segment; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX results_segment ON ONLY public.results USING btree (raw_segment, raw_offset) WHERE (raw_segment IS NOT NULL);


--
-- Name: results_2026_11_raw_segment_raw_offset_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX results_2026_11_raw_segment_raw_offset_idx ON public.results_2026_11 USING btree (raw_segment, raw_offset) WHERE (raw_segment IS NOT NULL);


--
-- Name: results_received; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX results_received ON ONLY public.results USING btree (received_ms);


--
-- Name: results_2026_11_received_ms_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX results_2026_11_received_ms_idx ON public.results_2026_11 USING btree (received_ms);


--
-- Name: results_sequence; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX results_sequence ON ONLY public.results USING btree (sequence);


--
-- Name: results_2026_11_sequence_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX results_2026_11_sequence_idx ON public.results_2026_11 USING btree (sequence);


--
-- Name: results_2026_12_deletion_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX results_2026_12_deletion_idx ON public.results_2026_12 USING btree (deletion);


--
-- Name: results_2026_12_raw_segment_raw_offset_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX results_2026_12_raw_segment_raw_offset_idx ON public.results_2026_12 USING btree (raw_segment, raw_offset) WHERE (raw_segment IS NOT NULL);


--
-- Name: results_2026_12_received_ms_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX results_2026_12_received_ms_idx ON public.results_2026_12 USING btree (received_ms);


--
-- Name: results_2026_12_sequence_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX results_2026_12_sequence_idx ON public.results_2026_12 USING btree (sequence);


--
-- Name: results_default_deletion_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX results_default_deletion_idx ON public.results_default USING btree (deletion);


--
-- Name: results_default_raw_segment_raw_offset_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX results_default_raw_segment_raw_offset_idx ON public.results_default USING btree (raw_segment, raw_offset) WHERE (raw_segment IS NOT NULL);


--
-- Name: results_default_received_ms_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX results_default_received_ms_idx ON public.results_default USING btree (received_ms);


--
-- Name: results_default_sequence_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX results_default_sequence_idx ON public.results_default USING btree (sequence);


--
-- Name: results_2026_11_deletion_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.results_deletion ATTACH PARTITION public.results_2026_11_deletion_idx;


--
-- Name: results_2026_11_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.results_pkey ATTACH PARTITION public.results_2026_11_pkey;


--
-- Name: results_2026_11_raw_segment_raw_offset_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.results_segment ATTACH PARTITION public.results_2026_11_raw_segment_raw_offset_idx;


--
-- Name: results_2026_11_received_ms_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.results_received ATTACH PARTITION public.results_2026_11_received_ms_idx;


--
-- Name: results_2026_11_sequence_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.results_sequence ATTACH PARTITION public.results_2026_11_sequence_idx;


--
-- Name: results_2026_12_deletion_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.results_deletion ATTACH PARTITION public.results_2026_12_deletion_idx;


--
-- Name: results_2026_12_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.results_pkey ATTACH PARTITION public.results_2026_12_pkey;


--
-- Name: results_2026_12_raw_segment_raw_offset_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.results_segment ATTACH PARTITION public.results_2026_12_raw_segment_raw_offset_idx;


--
-- Name: results_2026_12_received_ms_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.results_received ATTACH PARTITION public.results_2026_12_received_ms_idx;


--
-- Name: results_2026_12_sequence_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.results_sequence ATTACH PARTITION public.results_2026_12_sequence_idx;


--
-- Name: results_default_deletion_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.results_deletion ATTACH PARTITION public.results_default_deletion_idx;


--
-- Name: results_default_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.results_pkey ATTACH PARTITION public.results_default_pkey;


--
-- Name: results_default_raw_segment_raw_offset_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.results_segment ATTACH PARTITION public.results_default_raw_segment_raw_offset_idx;


--
-- Name: results_default_received_ms_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.results_received ATTACH PARTITION public.results_default_received_ms_idx;


--
-- Name: results_default_sequence_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.results_sequence ATTACH PARTITION public.results_default_sequence_idx;


--
-- PostgreSQL database dump complete
--

\unrestrict j8tX7ZbXAX2J4dHf0sTlWH9C1h8S45Wusl5oqxu3ztkc2I95KthpCBhc7IycqaJ

