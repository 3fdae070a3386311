defmodule Probe.MixProject do
  use Mix.Project

  def project do
    [
      app: :probe,
      version: "1.0.0",
      deps: deps(),
      releases: [probe: [include_erts: false]]
    ]
  end

  def application, do: [mod: {:probe, []}]

  defp deps do
    [
      DEPENDENCY
    ]
  end
end
