{{/* _helpers.tpl - names, and the settings file. SPDX-License-Identifier: Apache-2.0

The chart passes "settings" through, and adds what must agree with the pod: addresses, folders, files. The result is
one JSON document. checks.tpl refuses values that contradict each other. */}}

{{- define "penstock.name" -}}
{{- ternary .Release.Name (printf "%s-penstock" .Release.Name) (contains "penstock" .Release.Name) | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "penstock.selector" -}}
app.kubernetes.io/name: penstock
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "penstock.labels" -}}
{{ include "penstock.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "penstock.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* The Secret with the certificate for clients; empty without https. */}}
{{- define "penstock.tlsSecret" -}}
{{- if .Values.tls.certManager.issuer -}}
{{ include "penstock.name" . }}-tls
{{- else -}}
{{ .Values.tls.secret }}
{{- end -}}
{{- end -}}

{{- define "penstock.hasHttp" -}}
{{- if or .Values.tls.http (not (include "penstock.tlsSecret" .)) }}yes{{ end -}}
{{- end -}}

{{/* Bytes of a size as Penstock writes it (64MiB, 10GB) or as Kubernetes does (4Gi, 512M). */}}
{{- define "penstock.bytes" -}}
{{- $units := dict "" 1 "B" 1 "KiB" 1024 "MiB" 1048576 "GiB" 1073741824 "TiB" 1099511627776
      "KB" 1000 "MB" 1000000 "GB" 1000000000 "TB" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824
      "Ti" 1099511627776 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 -}}
{{- $text := kindIs "string" . | ternary . (int64 . | toString) -}}
{{- $number := regexFind "^[0-9]+(\\.[0-9]+)?" $text -}}
{{- $unit := trimPrefix $number $text -}}
{{- if or (eq $number "") (not (hasKey $units $unit)) -}}
{{- fail (printf "%q is no size: write it as 4Gi or 512MiB" $text) -}}
{{- end -}}
{{- mulf (float64 $number) (index $units $unit) | int64 -}}
{{- end -}}

{{/* The size of a volume for a cache of this size: a tenth more, for cache_reserve and the file system. */}}
{{- define "penstock.claim" -}}
{{- ceil (divf (mulf 1.1 (include "penstock.bytes" . | float64)) 1048576) | int64 }}Mi
{{- end -}}

{{/* Whole seconds of a duration as Penstock writes it (250ms, 60s, 10m), rounded up. */}}
{{- define "penstock.seconds" -}}
{{- $units := dict "ms" 0.001 "s" 1 "m" 60 "h" 3600 "d" 86400 -}}
{{- $number := regexFind "^[0-9]+" . -}}
{{- $unit := trimPrefix $number . -}}
{{- if or (eq $number "") (not (or (hasKey $units $unit) (eq . "0"))) -}}
{{- fail (printf "settings: drain_time is %q, which is no duration: write it as 30s or 2m" .) -}}
{{- end -}}
{{- ceil (mulf (float64 $number) (index (set $units "" 1) $unit)) | int64 -}}
{{- end -}}

{{- define "penstock.grace" -}}
{{- add 30 (include "penstock.seconds" (.Values.settings.drain_time | default "30s" | toString)) -}}
{{- end -}}

{{/* The settings that the chart sets, as JSON. */}}
{{- define "penstock.own" -}}
{{- $any := ternary "[::]" "0.0.0.0" .Values.ipv6 -}}
{{- $own := dict "listen" (printf "%s:9000" (ternary $any "127.0.0.1" (eq "yes" (include "penstock.hasHttp" .))))
      "admin_listen" (printf "%s:9001" $any) -}}
{{- if include "penstock.tlsSecret" . -}}
{{- $_ := set $own "tls_listen" (printf "%s:9443" $any) -}}
{{- $_ := set $own "tls_cert_file" "/run/secrets/tls/tls.crt" -}}
{{- $_ := set $own "tls_key_file" "/run/secrets/tls/tls.key" -}}
{{- end -}}
{{- $folders := list -}}
{{- range $i, $folder := .Values.cache.folders -}}
{{- $row := dict "path" (printf "/cache/%d" $i) -}}
{{- with $folder.size -}}{{- $_ := set $row "size" . -}}{{- end -}}
{{- $folders = append $folders $row -}}
{{- end -}}
{{- $_ := set $own "cache_dirs" $folders -}}
{{- with .Values.fillSocket.hostPath -}}{{- $_ := set $own "fill_socket" "/run/penstock/fill.sock" -}}{{- end -}}
{{- toJson (merge $own (include "penstock.peers.settings" . | fromJson)) -}}
{{- end -}}

{{- define "penstock.settings" -}}
{{- merge (include "penstock.own" . | fromJson) .Values.settings | toPrettyJson -}}
{{- end -}}
