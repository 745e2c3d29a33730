// Texts that depend on the host of the console, such as Airflow. The API sends them with the list of connections.

export const words = {
  server: "The server of this page",
  hidden: "",
  nothing: ["", ""],
  publish: ["", ""],
  no_messages: "",
  no_change: "",
  logout: "",
};
