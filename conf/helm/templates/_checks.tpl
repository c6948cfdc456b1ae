{{/* _checks.tpl - refuses values that contradict each other. SPDX-License-Identifier: Apache-2.0

values.schema.json has said before what each value may be. Each message says what is wrong, and what to do. */}}

{{- define "penstock.checks" -}}
{{- $settings := .Values.settings -}}
{{- if not (or $settings.origin $settings.origins) -}}
{{- fail "settings: no origin is set: set settings.origin, such as https://s3.eu-west-1.amazonaws.com" -}}
{{- end -}}
{{- $own := list "listen" "admin_listen" "tls_listen" "tls_cert_file" "tls_key_file" "cache_dir" "cache_dirs" "cache_size"
      "fill_socket" "peers" "peer_listen" "peer_name" "peer_tls_cert_file" "peer_tls_key_file" "peer_tls_ca_file" "config" -}}
{{- range $name := keys $settings | sortAlpha -}}
{{- if has $name $own -}}
{{- fail (printf "settings: the chart sets %s itself: remove it, and see cache, tls, fillSocket and peers in values.yaml" $name) -}}
{{- end -}}
{{- end -}}
{{- include "penstock.checks.secrets" (dict "rows" (list $settings) "where" "settings") -}}
{{- include "penstock.checks.secrets" (dict "rows" ($settings.keys | default list) "where" "settings.keys") -}}
{{- include "penstock.checks.secrets" (dict "rows" (values ($settings.origins | default dict)) "where" "settings.origins") -}}
{{- include "penstock.checks.clients" . -}}
{{- include "penstock.checks.memory" . -}}
{{- include "penstock.checks.folders" . -}}
{{- include "penstock.checks.rest" . -}}
{{- end -}}

{{/* A ConfigMap is no place for a secret. */}}
{{- define "penstock.checks.secrets" -}}
{{- $where := .where -}}
{{- range $row := .rows -}}
{{- range $name := list "secret_key" "secret_key_previous" "session_token" "admin_token" "lend_token" "origin_secret_key"
      "origin_session_token" -}}
{{- if hasKey $row $name -}}
{{- fail (printf "%s: %s would stand in a ConfigMap, where many can read it: put it into a Secret, list the Secret in \"secrets\", and set %s_file to /run/secrets/penstock/SECRET/KEY" $where $name $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "penstock.checks.clients" -}}
{{- $settings := .Values.settings -}}
{{- if not (or .Values.awsSecret $settings.access_key $settings.keys $settings.aws_profile $settings.lend) -}}
{{- fail "no key is set with which clients could sign: set awsSecret to the name of a Secret, or settings.access_key and settings.secret_key_file, or settings.keys" -}}
{{- end -}}
{{- end -}}

{{- define "penstock.checks.memory" -}}
{{- $limit := dig "limits" "memory" "" .Values.resources -}}
{{- $memory := .Values.settings.memory | default "0" -}}
{{- if and $limit (lt (include "penstock.bytes" $limit | float64) 536870912.0) -}}
{{- fail (printf "resources: limits.memory is %v, and Penstock needs 512Mi or more: raise it" $limit) -}}
{{- end -}}
{{- if and $limit (gt (mulf 4 (include "penstock.bytes" $memory | float64)) (mulf 3 (include "penstock.bytes" $limit | float64))) -}}
{{- fail (printf "settings: memory is %v, more than three quarters of resources.limits.memory (%v), and page cache comes on top: raise the limit, or lower settings.memory" $memory $limit) -}}
{{- end -}}
{{- end -}}

{{- define "penstock.checks.folders" -}}
{{- $paths := list -}}
{{- range $i, $folder := .Values.cache.folders -}}
{{- if and $folder.hostPath (has $folder.hostPath $paths) -}}
{{- fail (printf "cache.folders: %s is there twice: give each folder a disk of its own" $folder.hostPath) -}}
{{- end -}}
{{- $paths = append $paths $folder.hostPath -}}
{{- end -}}
{{- end -}}

{{- define "penstock.checks.rest" -}}
{{- if and .Values.tls.secret .Values.tls.certManager.issuer -}}
{{- fail "tls: both secret and certManager.issuer are set: set one of them" -}}
{{- end -}}
{{- if and (eq (.Values.settings.io | default "auto") "uring") (eq .Values.seccompProfile.type "RuntimeDefault") -}}
{{- fail "settings: io is uring, and the seccomp profile RuntimeDefault forbids io_uring: remove settings.io, or set seccompProfile to a profile that allows io_uring" -}}
{{- end -}}
{{- if and .Values.settings.metrics_token .Values.monitoring.podMonitor.enabled -}}
{{- fail "settings: metrics_token is true, and the PodMonitor sends no token: remove one of them. Without it, /metrics needs no token, and all other pages do" -}}
{{- end -}}
{{- if and .Values.startupTaint.enabled (not .Values.startupTaint.image) -}}
{{- fail "startupTaint: image is empty: name an image that has kubectl, sh and sleep" -}}
{{- end -}}
{{- if and .Values.peers.enabled (not .Values.peers.tlsSecret) -}}
{{- fail "peers: tlsSecret is empty: name a Secret with tls.crt, tls.key and ca.crt" -}}
{{- end -}}
{{- end -}}
